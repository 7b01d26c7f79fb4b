// Floats of 16 and 8 bits, computed with as float32. In integers and float32 only: compilers that know no _Float16
// compile it, and all of them vectorise it: every value is computed in every case, for a compiler may not move
// arithmetic of floats out of a branch. Included once per instruction set, see body.h.
#pragma once

#include <stdint.h>
#include <string.h>

namespace {

// Bits as numbers and numbers as bits.
inline float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t as_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

struct Bfloat16 {
  using Stored = uint16_t;
  using Value = float;
  static inline Value load(Stored x) { return as_float(static_cast<uint32_t>(x) << 16); }
  static inline Stored store(Value x) {  // to nearest, ties to even; a NaN stays a (quiet) NaN
    uint32_t bits = as_bits(x), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(x == x ? rounded : ((bits >> 16) | 0x40));
  }
};

// A float32 without its sign, rounded to nearest, ties to even, to a format of `mantissa` bits and exponents with
// `bias`: right up to and a little beyond that format's largest number; the caller decides the values above.
template <int mantissa, int bias>
inline uint32_t shortened(uint32_t magnitude) {
  constexpr int shift = 23 - mantissa;
  constexpr uint32_t rebias = uint32_t(127 - bias) << 23;
  constexpr uint32_t step = uint32_t(127 + 24 - bias - mantissa) << 23;  // a float32 whose last bit is the least number
  uint32_t normal = (magnitude - rebias + (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1)) >> shift;
  uint32_t subnormal = as_bits(as_float(magnitude) + as_float(step)) - step;  // the addition rounds at the right place
  return magnitude < rebias + (1u << 23) ? subnormal : normal;
}

// The float32 of a magnitude that is not yet right by its exponent: of a format with exponents with `bias`, moved to
// where float32 has its own. Subnormal numbers are no subnormal float32 in between, as a program may have those taken
// for 0.
template <int bias>
inline uint32_t lengthened(uint32_t magnitude) {
  constexpr uint32_t rebias = uint32_t(127 - bias) << 23, least = rebias + (1u << 23);  // of the normal numbers
  uint32_t subnormal = as_bits(as_float(magnitude + least) - as_float(least));
  return magnitude < (1u << 23) ? subnormal : magnitude + rebias;
}

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static inline Value load(Stored x) {
    uint32_t magnitude = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;
    uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : lengthened<15>(magnitude);  // infinity and NaN
    return as_float(bits | sign);
  }
  static inline Stored store(Value x) {
    uint32_t bits = as_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t beyond = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;  // NaN, else infinity
    uint32_t rounded = shortened<10, 15>(magnitude);
    return static_cast<Stored>((magnitude >= 0x47800000u ? beyond : rounded) | sign);
  }
};

// float8 e5m2: the upper half of a float16.
struct Float8E5m2 {
  using Stored = uint8_t;
  using Value = float;
  static inline Value load(Stored x) { return Float16::load(static_cast<uint16_t>(x << 8)); }
  static inline Stored store(Value x) {
    uint32_t bits = as_bits(x), sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
    uint32_t beyond = magnitude > 0x7f800000u ? 0x7eu : 0x7cu;  // NaN, else infinity
    uint32_t rounded = shortened<2, 15>(magnitude);
    return static_cast<Stored>((magnitude >= 0x47800000u ? beyond : rounded) | sign);
  }
};

// float8 e4m3fn: no infinities; what is beyond 448 by half a step (16) or more is NaN, 0x7f.
struct Float8E4m3fn {
  using Stored = uint8_t;
  using Value = float;
  static inline Value load(Stored x) {
    uint32_t magnitude = (x & 0x7fu) << 20, sign = (x & 0x80u) << 24;
    return as_float((magnitude == 0x07f00000u ? 0x7fc00000u : lengthened<7>(magnitude)) | sign);
  }
  static inline Stored store(Value x) {
    uint32_t bits = as_bits(x), sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
    uint32_t rounded = shortened<3, 7>(magnitude);
    return static_cast<Stored>((magnitude > 0x43e80000u ? 0x7fu : rounded) | sign);  // 464
  }
};

}  // namespace
