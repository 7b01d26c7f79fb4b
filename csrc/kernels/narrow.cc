// The kernels that gain little from wide vectors, or are too rare to be compiled more than once.
#include "kernels/loops.h"

namespace {

using ringtree::Dtype;
using ringtree::Kernels;
using ringtree::Op;

void set(Kernels& k, Dtype dtype, Op op, ringtree::Reduce reduce, ringtree::Finish finish = nullptr) {
  k.reduce[static_cast<int>(dtype)][static_cast<int>(op)] = reduce;
  k.finish[static_cast<int>(dtype)][static_cast<int>(op)] = finish;
}

template <class T>
void settle(void* data, size_t count, int) {  // what nothing was joined with is as it came
  auto x = static_cast<typename T::Stored*>(data);
  for (size_t i = 0; i < count; i++) x[i] = T::store(T::load(x[i]));
}

template <class T>
void fill_logical(Kernels& k, Dtype dtype) {
  set(k, dtype, Op::land, reduce_in_steps<T, Band>, settle<T>);
  set(k, dtype, Op::lor, reduce_in_steps<T, Bor>, settle<T>);
  set(k, dtype, Op::lxor, reduce_in_steps<T, Bxor>, settle<T>);
}

// As numpy has it: sum and max are or, prod and min are and.
void fill_bool(Kernels& k) {
  using T = Truth<uint8_t, 0xff, 1>;
  fill_logical<T>(k, Dtype::boolean);
  for (auto op : {Op::prod, Op::min, Op::band}) set(k, Dtype::boolean, op, reduce_in_steps<T, Band>);
  for (auto op : {Op::sum, Op::max, Op::bor}) set(k, Dtype::boolean, op, reduce_in_steps<T, Bor>);
  set(k, Dtype::boolean, Op::bxor, reduce_in_steps<T, Bxor>);
}

template <class V, class I>
void fill_pairs(Kernels& k, Dtype dtype) {
  set(k, dtype, Op::minloc, reduce_in_steps<Pair<V, I>, Located<Less>>);
  set(k, dtype, Op::maxloc, reduce_in_steps<Pair<V, I>, Located<Greater>>);
}

}  // namespace

namespace ringtree {

Kernels narrow_kernels() {
  Kernels k{};
  fill_bool(k);
  for (auto dtype : {Dtype::int8, Dtype::uint8}) fill_logical<Truth<uint8_t, 0xff, 1>>(k, dtype);
  for (auto dtype : {Dtype::int16, Dtype::uint16}) fill_logical<Truth<uint16_t, 0xffff, 1>>(k, dtype);
  for (auto dtype : {Dtype::int32, Dtype::uint32}) fill_logical<Truth<uint32_t, 0xffffffff, 1>>(k, dtype);
  for (auto dtype : {Dtype::int64, Dtype::uint64}) fill_logical<Truth<uint64_t, 0xffffffffffffffff, 1>>(k, dtype);
  fill_logical<Truth<uint8_t, 0x7f, 0x38>>(k, Dtype::float8_e4m3fn);
  fill_logical<Truth<uint8_t, 0x7f, 0x3c>>(k, Dtype::float8_e5m2);
  fill_logical<Truth<uint16_t, 0x7fff, 0x3c00>>(k, Dtype::float16);
  fill_logical<Truth<uint16_t, 0x7fff, 0x3f80>>(k, Dtype::bfloat16);
  fill_logical<Truth<uint32_t, 0x7fffffff, 0x3f800000>>(k, Dtype::float32);
  fill_logical<Truth<uint64_t, 0x7fffffffffffffff, 0x3ff0000000000000>>(k, Dtype::float64);
  set(k, Dtype::complex64, Op::prod, reduce_in_steps<Plain<Complex<float>>, ComplexProd>);
  set(k, Dtype::complex128, Op::prod, reduce_in_steps<Plain<Complex<double>>, ComplexProd>);
  fill_pairs<float, int32_t>(k, Dtype::float32_int32);
  fill_pairs<double, int64_t>(k, Dtype::float64_int64);
  fill_pairs<int32_t, int32_t>(k, Dtype::int32_int32);
  fill_pairs<int64_t, int64_t>(k, Dtype::int64_int64);
  fill_pairs<double, int32_t>(k, Dtype::float64_int32);
  return k;
}

}  // namespace ringtree
