// Sums and products of float16 by the instructions that convert eight at a time, which no compiler finds in the
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
  using Rest = Runs<Float16, F>;  // of what is no whole eight
  using S = Float16::Stored;
  static constexpr size_t lanes = 8;

  static inline __m256 load(const S* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static inline void store(S* at, __m256 x) {
    auto sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    auto nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }

  static void two(S* t, const S* a, const S* b, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) store(t + i, F::apply(load(a + i), load(b + i)));
    Rest::two(t + i, a + i, b + i, n - i);
  }

  static void begin(float* acc, const S* a, const S* b, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) _mm256_storeu_ps(acc + i, F::apply(load(a + i), load(b + i)));
    Rest::begin(acc + i, a + i, b + i, n - i);
  }

  static void go_on(float* acc, const S* a, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) _mm256_storeu_ps(acc + i, F::apply(_mm256_loadu_ps(acc + i), load(a + i)));
    Rest::go_on(acc + i, a + i, n - i);
  }

  static void end(S* t, const float* acc, const S* a, size_t n) {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) store(t + i, F::apply(_mm256_loadu_ps(acc + i), load(a + i)));
    Rest::end(t + i, acc + i, a + i, n - i);
  }
};

}  // namespace
#endif
