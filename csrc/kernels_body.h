// The loops, compiled once per instruction set: the includer defines RINGTREE_ISA, and CMake the flags.
// Everything here is in an unnamed namespace and uses no library templates, so that no function compiled for a wide
// instruction set can replace a namesake elsewhere when the files are linked.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#if defined(__clang__)
#define RINGTREE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RINGTREE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace {

// Loads and stores of a type, and the type to compute in.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static inline Value load(Stored x) { return x; }
  static inline Stored store(Value x) { return x; }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Value = float;
  static inline Value load(Stored x) {
    uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }
  static inline Stored store(Value x) {  // to nearest, ties to even; a NaN stays a (quiet) NaN
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(x == x ? rounded : ((bits >> 16) | 0x40));
  }
};

// In integers and float32 only: compilers that know no _Float16 compile it, and all of them vectorise it.
struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static inline float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }
  static inline uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
  }
  static inline Value load(Stored x) {
    uint32_t magnitude = (x & 0x7fffu) << 13, sign = (x & 0x8000u) << 16;
    uint32_t finite = as_bits(as_float(magnitude) * 0x1p112f);  // moves the exponent; right for subnormals too
    uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;  // infinity and NaN
    return as_float(bits | sign);
  }
  static inline Stored store(Value x) {  // to nearest, ties to even
    uint32_t bits = as_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    uint32_t subnormal = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;  // the addition rounds at the right place
    uint32_t beyond = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;           // NaN, else infinity
    uint32_t small = magnitude < 0x38800000u ? subnormal : normal;
    return static_cast<Stored>((magnitude >= 0x47800000u ? beyond : small) | sign);
  }
};

// Signed integers wrap, as numpy's do: added and multiplied as unsigned.
template <class T>
struct Wrap {
  using type = T;
};
template <>
struct Wrap<int8_t> {
  using type = unsigned;
};
template <>
struct Wrap<int16_t> {
  using type = unsigned;
};
template <>
struct Wrap<uint8_t> {
  using type = unsigned;
};
template <>
struct Wrap<uint16_t> {
  using type = unsigned;
};
template <>
struct Wrap<int32_t> {
  using type = uint32_t;
};
template <>
struct Wrap<int64_t> {
  using type = uint64_t;
};

struct Sum {
  template <class V>
  static inline V apply(V a, V b) {
    using W = typename Wrap<V>::type;
    return static_cast<V>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Prod {
  template <class V>
  static inline V apply(V a, V b) {
    using W = typename Wrap<V>::type;
    return static_cast<V>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Max {  // a NaN on either side is the result, as in numpy
  template <class V>
  static inline V apply(V a, V b) {
    return a >= b || a != a ? a : b;
  }
};
struct Min {
  template <class V>
  static inline V apply(V a, V b) {
    return a <= b || a != a ? a : b;
  }
};
struct Or {
  template <class V>
  static inline V apply(V a, V b) {
    return static_cast<V>((a | b) != 0);
  }
};
struct And {
  template <class V>
  static inline V apply(V a, V b) {
    return static_cast<V>((a != 0) & (b != 0));
  }
};

// A target may be a source at the same index; else the turns of a loop are independent.
template <class T, class F>
struct Loops {
  using S = typename T::Stored;
  using V = typename T::Value;
  static constexpr size_t block = 4096 / sizeof(V);  // the running value of many sources stays in L1

  static void two(S* t, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = T::store(F::apply(T::load(a[i]), T::load(b[i])));
  }

  static void two_twice(S* t, S* u, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = u[i] = T::store(F::apply(T::load(a[i]), T::load(b[i])));
  }

  static void begin(V* acc, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) acc[i] = F::apply(T::load(a[i]), T::load(b[i]));
  }

  static void go_on(V* acc, const S* a, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) acc[i] = F::apply(acc[i], T::load(a[i]));
  }

  static void end(S* t, const V* acc, const S* a, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = T::store(F::apply(acc[i], T::load(a[i])));
  }

  static void end_twice(S* t, S* u, const V* acc, const S* a, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = u[i] = T::store(F::apply(acc[i], T::load(a[i])));
  }

  static void many(void* const* targets, int ntargets, const void* const* sources, int nsources, size_t count) {
    V acc[block];
    for (size_t at = 0; at < count; at += block) {
      size_t n = count - at < block ? count - at : block;
      auto source = [&](int k) { return static_cast<const S*>(sources[k]) + at; };
      begin(acc, source(0), source(1), n);
      for (int k = 2; k < nsources - 1; k++) go_on(acc, source(k), n);
      S* first = static_cast<S*>(targets[0]) + at;
      if (ntargets == 1)
        end(first, acc, source(nsources - 1), n);
      else
        end_twice(first, static_cast<S*>(targets[1]) + at, acc, source(nsources - 1), n);
    }
  }

  static void reduce(void* const* targets, int ntargets, const void* const* sources, int nsources, size_t count) {
    auto a = static_cast<const S*>(sources[0]);
    if (nsources == 1) {
      for (int k = 0; k < ntargets; k++)
        if (targets[k] != sources[0]) memcpy(targets[k], sources[0], count * sizeof(S));
    } else if (nsources > 2) {
      many(targets, ntargets, sources, nsources, count);
    } else if (ntargets == 1) {
      two(static_cast<S*>(targets[0]), a, static_cast<const S*>(sources[1]), count);
    } else {
      two_twice(static_cast<S*>(targets[0]), static_cast<S*>(targets[1]), a, static_cast<const S*>(sources[1]), count);
    }
  }
};

template <class T>
void divide(void* data, size_t count, int by) {
  using V = typename T::Value;
  auto x = static_cast<typename T::Stored*>(data);
  for (size_t i = 0; i < count; i++) x[i] = T::store(static_cast<V>(T::load(x[i]) / static_cast<V>(by)));
}

template <class T>
void fill(ringtree::Kernels& k, ringtree::Dtype dtype) {
  auto d = static_cast<int>(dtype);
  auto set = [&](ringtree::Op op, ringtree::Reduce f) { k.reduce[d][static_cast<int>(op)] = f; };
  set(ringtree::Op::sum, Loops<T, Sum>::reduce);
  set(ringtree::Op::avg, Loops<T, Sum>::reduce);
  set(ringtree::Op::prod, Loops<T, Prod>::reduce);
  set(ringtree::Op::max, Loops<T, Max>::reduce);
  set(ringtree::Op::min, Loops<T, Min>::reduce);
  k.divide[d] = divide<T>;
}

ringtree::Kernels make() {
  using ringtree::Dtype;
  using ringtree::Op;
  ringtree::Kernels k{};
  fill<Plain<int8_t>>(k, Dtype::int8);
  fill<Plain<int16_t>>(k, Dtype::int16);
  fill<Plain<int32_t>>(k, Dtype::int32);
  fill<Plain<int64_t>>(k, Dtype::int64);
  fill<Plain<uint8_t>>(k, Dtype::uint8);
  fill<Plain<uint16_t>>(k, Dtype::uint16);
  fill<Plain<uint32_t>>(k, Dtype::uint32);
  fill<Plain<uint64_t>>(k, Dtype::uint64);
  fill<Float16>(k, Dtype::float16);
  fill<Bfloat16>(k, Dtype::bfloat16);
  fill<Plain<float>>(k, Dtype::float32);
  fill<Plain<double>>(k, Dtype::float64);
  auto boolean = static_cast<int>(Dtype::boolean);  // numpy's: sum and max are or, prod and min are and
  using B = Plain<uint8_t>;
  k.reduce[boolean][static_cast<int>(Op::sum)] = k.reduce[boolean][static_cast<int>(Op::max)] = Loops<B, Or>::reduce;
  k.reduce[boolean][static_cast<int>(Op::prod)] = k.reduce[boolean][static_cast<int>(Op::min)] = Loops<B, And>::reduce;
  return k;  // avg of bool stays nullptr: it has no meaning
}

}  // namespace

namespace ringtree::RINGTREE_ISA {
const Kernels& table() {
  static const Kernels made = make();
  return made;
}
}  // namespace ringtree::RINGTREE_ISA
