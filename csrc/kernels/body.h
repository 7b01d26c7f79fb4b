// The loops that gain from wide vectors, compiled once per instruction set: the includer defines RINGTREE_ISA, and
// CMake the flags.

#include "kernels/floats.h"
#include "kernels/halves.h"
#include "kernels/loops.h"
#include "kernels/pairs.h"

namespace {

using ringtree::Dtype;
using ringtree::Op;

ringtree::Reduce& reduce(ringtree::Kernels& k, Dtype dtype, Op op) {
  return k.reduce[static_cast<int>(dtype)][static_cast<int>(op)];
}
ringtree::Finish& average(ringtree::Kernels& k, Dtype dtype) {
  return k.finish[static_cast<int>(dtype)][static_cast<int>(Op::avg)];
}

template <class T>
void fill_sums(ringtree::Kernels& k, Dtype dtype) {
  reduce(k, dtype, Op::sum) = reduce(k, dtype, Op::avg) = Loops<T, Sum>::reduce;
  reduce(k, dtype, Op::prod) = Loops<T, Prod>::reduce;
}

template <class T>
void fill_order(ringtree::Kernels& k, Dtype dtype) {
  reduce(k, dtype, Op::max) = Loops<T, Max>::reduce;
  reduce(k, dtype, Op::min) = Loops<T, Min>::reduce;
  average(k, dtype) = divide<T>;
}

// Sums and products are the same bits with and without a sign; bits have no width.
template <class Signed, class Unsigned>
void fill_integers(ringtree::Kernels& k, Dtype with_sign, Dtype without) {
  using Bits = Plain<uint8_t>;
  for (auto dtype : {with_sign, without}) {
    fill_sums<Plain<Unsigned>>(k, dtype);
    reduce(k, dtype, Op::band) = reduce_parts<Loops<Bits, Band>::reduce, sizeof(Unsigned)>;
    reduce(k, dtype, Op::bor) = reduce_parts<Loops<Bits, Bor>::reduce, sizeof(Unsigned)>;
    reduce(k, dtype, Op::bxor) = reduce_parts<Loops<Bits, Bxor>::reduce, sizeof(Unsigned)>;
  }
  fill_order<Plain<Signed>>(k, with_sign);
  fill_order<Plain<Unsigned>>(k, without);
}

template <class T>
void fill_floats(ringtree::Kernels& k, Dtype dtype) {
  fill_sums<T>(k, dtype);
  fill_order<T>(k, dtype);
}

// In steps: fewer loops to compile, and the conversions are most of the work.
template <class T>
void fill_float8(ringtree::Kernels& k, Dtype dtype) {
  reduce(k, dtype, Op::sum) = reduce(k, dtype, Op::avg) = reduce_in_steps<T, Sum>;
  reduce(k, dtype, Op::prod) = reduce_in_steps<T, Prod>;
  reduce(k, dtype, Op::max) = reduce_in_steps<T, Max>;
  reduce(k, dtype, Op::min) = reduce_in_steps<T, Min>;
  average(k, dtype) = divide<T>;
}

template <class T>
void fill_complex(ringtree::Kernels& k, Dtype dtype) {
  reduce(k, dtype, Op::sum) = reduce(k, dtype, Op::avg) = reduce_parts<Loops<T, Sum>::reduce, 2>;
  average(k, dtype) = finish_parts<divide<T>, 2>;
}

ringtree::Kernels make() {
  ringtree::Kernels k = ringtree::narrow_kernels();
  fill_integers<int8_t, uint8_t>(k, Dtype::int8, Dtype::uint8);
  fill_integers<int16_t, uint16_t>(k, Dtype::int16, Dtype::uint16);
  fill_integers<int32_t, uint32_t>(k, Dtype::int32, Dtype::uint32);
  fill_integers<int64_t, uint64_t>(k, Dtype::int64, Dtype::uint64);
  fill_floats<Float16>(k, Dtype::float16);
#ifdef RINGTREE_HALVES
  reduce(k, Dtype::float16, Op::sum) = reduce(k, Dtype::float16, Op::avg) = Loops<Float16, Sum, Halves<Sum>>::reduce;
  reduce(k, Dtype::float16, Op::prod) = Loops<Float16, Prod, Halves<Prod>>::reduce;
#endif
  fill_floats<Bfloat16>(k, Dtype::bfloat16);
  reduce(k, Dtype::bfloat16, Op::sum) = reduce(k, Dtype::bfloat16, Op::avg) = Loops<Bfloat16, Sum, Pairs<Sum>>::reduce;
  reduce(k, Dtype::bfloat16, Op::prod) = Loops<Bfloat16, Prod, Pairs<Prod>>::reduce;
  fill_floats<Plain<float>>(k, Dtype::float32);
  fill_floats<Plain<double>>(k, Dtype::float64);
  fill_float8<Float8E4m3fn>(k, Dtype::float8_e4m3fn);
  fill_float8<Float8E5m2>(k, Dtype::float8_e5m2);
  fill_complex<Plain<float>>(k, Dtype::complex64);
  fill_complex<Plain<double>>(k, Dtype::complex128);
  return k;
}

}  // namespace

namespace ringtree::RINGTREE_ISA {
const Kernels& table() {
  static const Kernels made = make();
  return made;
}
}  // namespace ringtree::RINGTREE_ISA
