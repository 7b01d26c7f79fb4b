// Sums and products of bfloat16, two at a time in a uint32: each is computed with where it lies, so nothing is widened
// or narrowed, and vectors keep their width. The same bits come out as one by one. Included once per instruction set.
#pragma once

#include "kernels/floats.h"
#include "kernels/loops.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace {

template <class F>
struct Pairs : Runs<Bfloat16, F> {
  using Rest = Runs<Bfloat16, F>;  // of what is no whole pair
  using S = Bfloat16::Stored;

  static inline uint32_t load(const S* at) {
    uint32_t both;
    memcpy(&both, at, sizeof both);
    return both;
  }
  static inline float lower(uint32_t both) { return as_float(both << 16); }
  static inline float upper(uint32_t both) { return as_float(both & 0xffff0000u); }

  static inline uint32_t rounded(float x) {  // the result is the upper half
    uint32_t bits = as_bits(x), nearest = bits + 0x7fff + ((bits >> 16) & 1);
    return x == x ? nearest : bits | 0x400000u;
  }
  static inline void store(S* at, float low, float high) {
    uint32_t both = (rounded(low) >> 16) | (rounded(high) & 0xffff0000u);
    memcpy(at, &both, sizeof both);
  }

#if defined(__AVX512BW__)
  // The rounding of a vector's numbers at once, in lanes of 16 bits; a NaN is left to the loop below.
  static void two(S* t, const S* a, const S* b, size_t n) {
    constexpr size_t lanes = sizeof(__m512i) / sizeof(S);
    auto upper_half = _mm512_set1_epi32(INT32_MIN >> 15), one = _mm512_set1_epi16(1);
    auto above_half = _mm512_set1_epi16(INT16_MIN + 1);
    constexpr int choice = 0xca, last_bit_off = 0x6a;  // truth tables: a ? b : c, and (a & b) ^ c
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      fetch_ahead(a + i);
      fetch_ahead(b + i);
      auto x = _mm512_loadu_si512(a + i), y = _mm512_loadu_si512(b + i);
      auto low = F::apply(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)));
      auto high = F::apply(_mm512_castsi512_ps(_mm512_and_si512(x, upper_half)),
                           _mm512_castsi512_ps(_mm512_and_si512(y, upper_half)));
      if (__builtin_expect(_mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q), 0)) {
        by_pairs(t + i, a + i, b + i, lanes);
        continue;
      }
      auto l = _mm512_castps_si512(low), h = _mm512_castps_si512(high);
      auto kept = _mm512_ternarylogic_epi32(upper_half, h, _mm512_srli_epi32(l, 16), choice);
      auto cut = _mm512_ternarylogic_epi32(upper_half, _mm512_slli_epi32(h, 16), l, choice);
      // More than half of the last bit is rounded up, and half itself where that bit is set.
      auto up = _mm512_cmpge_epu16_mask(cut, _mm512_ternarylogic_epi32(kept, one, above_half, last_bit_off));
      _mm512_storeu_si512(t + i, _mm512_mask_add_epi16(kept, up, kept, one));
    }
    by_pairs(t + i, a + i, b + i, n - i);
  }
#else
  static void two(S* t, const S* a, const S* b, size_t n) { by_pairs(t, a, b, n); }
#endif

  static void by_pairs(S* t, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n / 2; i++) {
      uint32_t x = load(a + 2 * i), y = load(b + 2 * i);
      store(t + 2 * i, F::apply(lower(x), lower(y)), F::apply(upper(x), upper(y)));
    }
    if (n % 2) Rest::two(t + n - 1, a + n - 1, b + n - 1, 1);
  }

  // Of many sources: the lower ones' running values lie before the upper ones'.
  static void begin(float* acc, const S* a, const S* b, size_t n) {
    size_t half = n / 2;
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < half; i++) {
      uint32_t x = load(a + 2 * i), y = load(b + 2 * i);
      acc[i] = F::apply(lower(x), lower(y));
      acc[half + i] = F::apply(upper(x), upper(y));
    }
    if (n % 2) Rest::begin(acc + n - 1, a + n - 1, b + n - 1, 1);
  }

  static void go_on(float* acc, const S* a, size_t n) {
    size_t half = n / 2;
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < half; i++) {
      uint32_t x = load(a + 2 * i);
      acc[i] = F::apply(acc[i], lower(x));
      acc[half + i] = F::apply(acc[half + i], upper(x));
    }
    if (n % 2) Rest::go_on(acc + n - 1, a + n - 1, 1);
  }

  static void end(S* t, const float* acc, const S* a, size_t n) {
    size_t half = n / 2;
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < half; i++) {
      uint32_t x = load(a + 2 * i);
      store(t + 2 * i, F::apply(acc[i], lower(x)), F::apply(acc[half + i], upper(x)));
    }
    if (n % 2) Rest::end(t + n - 1, acc + n - 1, a + n - 1, 1);
  }
};

}  // namespace
