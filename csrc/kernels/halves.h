// Sums and products of float16 by the instructions that convert a vector at a time, which no compiler finds in the
// integers of Float16. The same bits come out: a NaN keeps its sign alone. Included once per instruction set.
#pragma once

#include "kernels/floats.h"
#include "kernels/loops.h"

#if defined(__F16C__) && defined(__AVX2__)
#define RINGTREE_HALVES
#include <immintrin.h>

namespace {

template <class F>
struct Halves : Runs<Float16, F> {
  using Rest = Runs<Float16, F>;  // of what is no whole vector
  using S = Float16::Stored;
#if defined(__AVX512F__)
  using Vector = __m512;
  static inline Vector load(const S* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static inline void store(S* at, Vector x) {
    auto bits = _mm512_castps_si512(x), sign = _mm512_set1_epi32(INT32_MIN), nan = _mm512_set1_epi32(0x7fc00000);
    constexpr int sign_of_nan = 0xea;  // the truth table of (bits & sign) | nan
    bits = _mm512_mask_ternarylogic_epi32(bits, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), sign, nan, sign_of_nan);
    auto rounded = _mm512_cvtps_ph(_mm512_castsi512_ps(bits), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), rounded);
  }
  static inline Vector resume(const float* at) { return _mm512_loadu_ps(at); }
  static inline void keep(float* at, Vector x) { _mm512_storeu_ps(at, x); }
#else
  using Vector = __m256;
  static inline Vector load(const S* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static inline void store(S* at, Vector x) {
    auto sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    auto nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static inline Vector resume(const float* at) { return _mm256_loadu_ps(at); }
  static inline void keep(float* at, Vector x) { _mm256_storeu_ps(at, x); }
#endif
  static constexpr size_t lanes = sizeof(Vector) / sizeof(float);

  static void two(S* t, const S* a, const S* b, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      fetch_ahead(a + i);
      fetch_ahead(b + i);
      store(t + i, F::apply(load(a + i), load(b + i)));
    }
    Rest::two(t + i, a + i, b + i, n - i);
  }

  static void begin(float* acc, const S* a, const S* b, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) keep(acc + i, F::apply(load(a + i), load(b + i)));
    Rest::begin(acc + i, a + i, b + i, n - i);
  }

  static void go_on(float* acc, const S* a, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) keep(acc + i, F::apply(resume(acc + i), load(a + i)));
    Rest::go_on(acc + i, a + i, n - i);
  }

  static void end(S* t, const float* acc, const S* a, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) store(t + i, F::apply(resume(acc + i), load(a + i)));
    Rest::end(t + i, acc + i, a + i, n - i);
  }
};

#if defined(__AVX512FP16__)
// By the instructions that add and multiply float16. A float32 has digits enough that rounding its sum or product of
// two of them gives what they give.
template <class F>
struct NativeHalves : Halves<F> {
  using Rest = Halves<F>;  // of what is no whole vector, and of NaNs
  using S = Float16::Stored;
  static constexpr size_t lanes = sizeof(__m512h) / sizeof(S);

  static void two(S* t, const S* a, const S* b, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      auto x = F::apply(_mm512_loadu_ph(a + i), _mm512_loadu_ph(b + i));
      if (__builtin_expect(_mm512_cmp_ph_mask(x, x, _CMP_UNORD_Q), 0))
        Rest::two(t + i, a + i, b + i, lanes);
      else
        _mm512_storeu_ph(t + i, x);
    }
    Rest::two(t + i, a + i, b + i, n - i);
  }
};
#endif

}  // namespace
#endif
