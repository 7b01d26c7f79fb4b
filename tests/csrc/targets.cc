// Copies and sums into one target and two write all of each, and not a byte behind it.
#include "interpreter/targets.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/kernels.h"

namespace {

constexpr std::size_t behind = 32 << 10;  // bytes
constexpr std::byte untouched{0x5a};

std::vector<std::int32_t> numbers(std::size_t count, int stamp) {
  std::vector<std::int32_t> all(count);
  for (std::size_t k = 0; k < count; k++) all[k] = static_cast<std::int32_t>(stamp * 1000 + k);
  return all;
}

// Whether every target holds what `value` gives for each position, and what lies behind is as it was.
template <class Write, class Value>
bool writes(const char* what, std::size_t count, int ntargets, bool past_caches, Write write, Value value) {
  auto nbytes = count * sizeof(std::int32_t);
  std::vector<std::vector<std::byte>> memory(ntargets, std::vector<std::byte>(nbytes + behind, untouched));
  std::vector<void*> targets;
  for (auto& one : memory) targets.push_back(one.data());
  write(targets.data());
  bool right = true;
  for (auto& one : memory) {
    auto written = reinterpret_cast<const std::int32_t*>(one.data());
    for (std::size_t k = 0; k < count; k++) right &= written[k] == value(k);
    for (std::size_t k = nbytes; k < one.size(); k++) right &= one[k] == untouched;
  }
  if (!right)
    std::fprintf(stderr, "%s of %zu numbers into %d targets%s: wrong\n", what, count, ntargets,
                 past_caches ? ", past the caches" : "");
  return right;
}

}  // namespace

int main() {
  bool right = true;
  auto sum = ringtree::kernels().reduce[static_cast<int>(ringtree::Dtype::int32)][static_cast<int>(ringtree::Op::sum)];
  for (std::size_t count : {0, 1, 2047, 2048, 2049, 4096, 5000})
    for (int ntargets : {1, 2})
      for (bool past_caches : {false, true}) {
        auto first = numbers(count, 1), second = numbers(count, 2);
        right &= writes(
            "a copy", count, ntargets, past_caches,
            [&](void* const* targets) {
              ringtree::copy_to(targets, ntargets, first.data(), count * sizeof first[0], past_caches);
            },
            [&](std::size_t k) { return first[k]; });
        right &= writes(
            "a sum", count, ntargets, past_caches,
            [&](void* const* targets) {
              const void* sources[]{first.data(), second.data()};
              ringtree::reduce_to(targets, ntargets, {sum, sources, 2, sizeof first[0]}, count, past_caches);
            },
            [&](std::size_t k) { return first[k] + second[k]; });
      }
  if (!right) return EXIT_FAILURE;
  std::printf("copies and sums write their targets and nothing behind\n");
}
