// Sums and products of float16 by conversions of eight at a time, against those an element at a time: the same bits for
// every number beside thousands of others. Compiled for x86-64-v3.
#include "kernels/halves.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#ifndef RINGTREE_HALVES
#error "no conversions of eight at a time: compile it for x86-64-v3"
#endif

namespace {

constexpr std::size_t numbers = 65536 + 5;  // all of them, and a rest that is no whole eight
using Row = std::vector<std::uint16_t>;

// Whether a number is one of the first or the last of an exponent, subnormal ones of either sign included.
bool is_edge(unsigned bits) {
  auto mantissa = bits & 0x3ff;
  return mantissa < 2 || mantissa > 0x3fd || (bits & 0x7fff) < 64;
}

template <class F>
long differences(const Row& a, const Row& b) {
  Row singly(numbers), by_eight(numbers);
  Runs<Float16, F>::two(singly.data(), a.data(), b.data(), numbers);
  Halves<F>::two(by_eight.data(), a.data(), b.data(), numbers);
  long found = 0;
  for (std::size_t i = 0; i < numbers; i++) found += singly[i] != by_eight[i];
  return found;
}

template <class F>
long differences_of_many(const Row& a, const Row& b) {
  Row singly(numbers), by_eight(numbers);
  const void* sources[] = {a.data(), b.data(), a.data(), b.data()};
  Loops<Float16, F>::reduce(singly.data(), sources, 4, numbers);
  Loops<Float16, F, Halves<F>>::reduce(by_eight.data(), sources, 4, numbers);
  long found = 0;
  for (std::size_t i = 0; i < numbers; i++) found += singly[i] != by_eight[i];
  return found;
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) {
    std::printf("no AVX2 and F16C here: halves not compared\n");
    return EXIT_SUCCESS;
  }
  Row all(numbers), same(numbers);
  for (std::size_t i = 0; i < numbers; i++) all[i] = static_cast<std::uint16_t>(i);
  long found = 0, tried = 0;
  for (unsigned bits = 0; bits < 65536; bits += is_edge(bits) ? 1 : 37, tried++) {
    same.assign(numbers, static_cast<std::uint16_t>(bits));
    found += differences<Sum>(all, same) + differences<Prod>(all, same);
    if (tried % 16 == 0) found += differences_of_many<Sum>(all, same) + differences_of_many<Prod>(all, same);
  }
  std::printf("float16 by eight: every number beside %ld others, %ld differences\n", tried, found);
  return found ? EXIT_FAILURE : EXIT_SUCCESS;
}
