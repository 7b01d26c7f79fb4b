// Sums and products of float16 and bfloat16 by vectors and by pairs, against those an element at a time: the same bits
// for every number beside thousands of others, but for which of two NaNs comes out. And the numbers that the bits of
// short floats mean, also where the program has subnormal float32 taken for 0. Compiled once per instruction set.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "kernels/halves.h"
#include "kernels/pairs.h"

namespace {

constexpr std::size_t numbers = 65536 + 5;  // all of them, and a rest that is no whole vector
using Row = std::vector<std::uint16_t>;

// Whether a number is one of the first or the last of an exponent, subnormal ones of either sign included.
bool is_edge(unsigned bits, unsigned mantissa_bits) {
  unsigned last = (1u << mantissa_bits) - 1, mantissa = bits & last;
  return mantissa < 2 || mantissa > last - 2 || (bits & 0x7fff) < 64;
}

// A NaN of float16 is one of two; of bfloat16, whose payloads are kept, any.
template <class T>
bool is_nan(std::uint16_t x) {
  return std::is_same_v<T, Float16> ? (x & 0x7fff) == 0x7e00 : T::load(x) != T::load(x);
}

template <class T>
long differences(const Row& a, const Row& b) {
  long found = 0;
  for (std::size_t i = 0; i < numbers; i++) found += a[i] != b[i] && !(is_nan<T>(a[i]) && is_nan<T>(b[i]));
  return found;
}

template <class T, class F, class Fast>
long of_two(const Row& a, const Row& b) {
  Row singly(numbers), fast(numbers);
  Runs<T, F>::two(singly.data(), a.data(), b.data(), numbers);
  Fast::two(fast.data(), a.data(), b.data(), numbers);
  return differences<T>(singly, fast);
}

template <class T, class F, class Fast>
long of_many(const Row& a, const Row& b) {
  Row singly(numbers), fast(numbers);
  const void* sources[] = {a.data(), b.data(), a.data(), b.data()};
  Loops<T, F>::reduce(singly.data(), sources, 4, numbers);
  Loops<T, F, Fast>::reduce(fast.data(), sources, 4, numbers);
  return differences<T>(singly, fast);
}

template <class T, template <class> class Fast>
bool same_bits(const char* what, unsigned mantissa_bits) {
  Row all(numbers), same(numbers);
  for (std::size_t i = 0; i < numbers; i++) all[i] = static_cast<std::uint16_t>(i);
  long found = 0, tried = 0;
  for (unsigned bits = 0; bits < 65536; bits += is_edge(bits, mantissa_bits) ? 1 : 37, tried++) {
    same.assign(numbers, static_cast<std::uint16_t>(bits));
    found += of_two<T, Sum, Fast<Sum>>(all, same) + of_two<T, Prod, Fast<Prod>>(all, same);
    if (tried % 16 == 0) found += of_many<T, Sum, Fast<Sum>>(all, same) + of_many<T, Prod, Fast<Prod>>(all, same);
  }
  std::printf("%s: every number beside %ld others, %ld differences\n", what, tried, found);
  return found == 0;
}

// Finite numbers alone: those with exponents below the last, and of a type without infinities all but the last one.
template <class T, int mantissa_bits, int bias>
long misread(int finite) {
  long found = 0;
  for (int bits = 0; bits < finite; bits++) {
    int exponent = bits >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    auto whole = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    auto means = std::ldexp(static_cast<double>(whole), (exponent ? exponent : 1) - bias - mantissa_bits);
    auto read = T::load(static_cast<typename T::Stored>(bits));
    found += static_cast<double>(read) != means || T::store(read) != bits;
  }
  return found;
}

bool reads_right(const char* how) {
  long found = misread<Float16, 10, 15>(0x7c00) + misread<Float8E5m2, 2, 15>(0x7c) + misread<Float8E4m3fn, 3, 7>(0x7f);
  std::printf("short floats%s: %ld read wrong\n", how, found);
  return found == 0;
}

[[maybe_unused]] bool reads_right() {
  bool right = reads_right("");
#if defined(__SSE__)
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40;  // as torch.set_flush_denormal sets them
  auto usual = _mm_getcsr();
  _mm_setcsr(usual | flush_to_zero | denormals_are_zero);
  right &= reads_right(", subnormal float32 being 0");
  _mm_setcsr(usual);
#endif
  return right;
}

}  // namespace

int main() {
  bool same = true;
#if defined(__AVX512FP16__)
  if (!__builtin_cpu_supports("avx512fp16")) return std::puts("no AVX512-FP16 here: not compared"), EXIT_SUCCESS;
  same &= same_bits<Float16, NativeHalves>("float16 by its own instructions", 10);
#else
#if defined(__AVX512F__)
  if (!__builtin_cpu_supports("x86-64-v4")) return std::puts("no x86-64-v4 here: not compared"), EXIT_SUCCESS;
#elif defined(__AVX2__)
  if (!__builtin_cpu_supports("x86-64-v3")) return std::puts("no x86-64-v3 here: not compared"), EXIT_SUCCESS;
#endif
#if defined(RINGTREE_HALVES)
  same &= same_bits<Float16, Halves>("float16 by vectors", 10);
#endif
  same &= same_bits<Bfloat16, Pairs>("bfloat16 by pairs", 7);
  same &= reads_right();
#endif
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
