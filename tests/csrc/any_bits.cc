// Every reduction of every type on bytes of every value: the largest and the smallest numbers, NaN, and what is no
// value of the type at all. The sanitizer for undefined behaviour looks; what must come out,
// tests/runtime/communicator/collectives/test_any_bits.py knows.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/kernels.h"

namespace {

constexpr std::size_t count = 1031;
constexpr int nsources = 3;

// Of alike elements, so that they meet: all bits, the sign alone, all but the sign, and any.
std::byte bits(std::size_t k, std::size_t width, int source) {
  auto element = k / width, at = k % width;
  bool upper = at == width - 1;
  switch ((element + static_cast<std::size_t>(source) * (element / 7)) % 5) {
    case 0:
      return std::byte{0xff};
    case 1:
      return upper ? std::byte{0x80} : std::byte{0};
    case 2:
      return upper ? std::byte{0x7f} : std::byte{0xff};
    case 3:
      return std::byte{0};
    default:
      return static_cast<std::byte>(k * 151 + k / 5 + static_cast<std::size_t>(source));
  }
}

}  // namespace

int main() {
  int ran = 0;
  for (int dtype = 0; dtype < ringtree::dtypes; dtype++) {
    auto width = ringtree::dtype_bytes(dtype);
    std::vector<std::vector<std::byte>> sources(nsources, std::vector<std::byte>(count * width));
    const void* from[nsources];
    for (int s = 0; s < nsources; s++) {
      for (std::size_t k = 0; k < count * width; k++) sources[s][k] = bits(k, width, s);
      from[s] = sources[s].data();
    }
    for (int op = 0; op < ringtree::ops; op++) {
      auto reduce = ringtree::kernels().reduce[dtype][op];
      auto finish = ringtree::kernels().finish[dtype][op];
      std::vector<std::byte> target(count * width);
      for (int n = 1; reduce && n <= nsources; n++) {
        reduce(target.data(), from, n, count);
        if (finish) finish(target.data(), count, nsources);
        ran++;
      }
    }
  }
  std::printf("%d reductions of bytes of every value\n", ran);
}
