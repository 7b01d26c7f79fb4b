// What reductions do with two elements, and how elements lie in memory: what the loops of every instruction set and the
// programs of devices share. No library templates: everything is compiled again for each of them, see loops.h, and at
// run time for devices, where there is no library.
#pragma once

#include <stdint.h>
#include <string.h>

namespace {

// Loads and stores of a type, and the type to compute in.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static inline Value load(Stored x) { return x; }
  static inline Stored store(Value x) { return x; }
};

// Short integers are added and multiplied as unsigned, not as the int they would be promoted to; signed ones wrap, as
// numpy's do, for their sums and products are those of the unsigned type.
template <class T>
struct Wrap {
  using type = T;
};
template <>
struct Wrap<uint8_t> {
  using type = unsigned;
};
template <>
struct Wrap<uint16_t> {
  using type = unsigned;
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
struct Band {
  template <class V>
  static inline V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Bor {
  template <class V>
  static inline V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Bxor {
  template <class V>
  static inline V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

// A number as true or false: whether any of the `mask` is set; true is stored as `one`, the bits of 1.
template <class S, S mask, S one>
struct Truth {
  using Stored = S;
  using Value = uint8_t;
  static inline Value load(Stored x) { return (x & mask) != 0; }
  static inline Stored store(Value x) { return x ? one : S(0); }
};

template <class T>
struct Complex {
  T re, im;
};

struct ComplexProd {
  template <class T>
  static inline Complex<T> apply(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

// (value, index), as a struct of C; in memory it may lie at any address, as in numpy's packed records.
template <class V, class I>
struct Pair {
  struct Value {
    V value;
    I index;
  };
  struct Stored {
    unsigned char bytes[sizeof(Value)];
  };
  static inline Value load(const Stored& x) {
    Value value;
    memcpy(&value, &x, sizeof value);
    return value;
  }
  static inline Stored store(const Value& x) {
    Stored stored;
    memcpy(&stored, &x, sizeof x);
    return stored;
  }
};

// The better one of two pairs; a NaN is better than anything, and of equals, NaNs too, the one of the smaller index.
template <class Better>
struct Located {
  template <class P>
  static inline P apply(P a, P b) {
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (a_nan || a.value == b.value) return b.index < a.index ? b : a;
    return Better::than(b.value, a.value) ? b : a;
  }
};
struct Less {
  template <class V>
  static inline bool than(V a, V b) {
    return a < b;
  }
};
struct Greater {
  template <class V>
  static inline bool than(V a, V b) {
    return a > b;
  }
};

}  // namespace
