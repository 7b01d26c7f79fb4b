// A copy to anywhere moves its bytes and touches no others, and takes no longer where its target lies just behind its
// source.
#include "kernels/copies.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "machine.h"

namespace {

using ringtree::copy_bytes;

constexpr std::size_t page = 4096, most = 640 << 10;

// Memory that begins with a page.
struct Pages {
  std::byte* at = static_cast<std::byte*>(std::aligned_alloc(page, most + 4 * page));
  Pages() { std::memset(at, 0x5a, most + 4 * page); }
  ~Pages() { std::free(at); }
};

bool moves(Pages& sources, Pages& targets, std::size_t source, std::size_t behind, std::size_t nbytes) {
  auto from = sources.at + page + source, to = targets.at + page + source + behind;
  for (std::size_t k = 0; k < nbytes; k++) from[k] = static_cast<std::byte>(k * 7 + k / 251);
  std::memset(to - 64, 0x5a, nbytes + 128);
  copy_bytes(to, from, nbytes);
  auto untouched = [](std::byte b) { return b == std::byte{0x5a}; };
  bool right = !std::memcmp(to, from, nbytes) && std::all_of(to - 64, to, untouched) &&
               std::all_of(to + nbytes, to + nbytes + 64, untouched);
  if (!right) std::fprintf(stderr, "%zu bytes from %zu to %zu behind: wrong\n", nbytes, source, behind);
  return right;
}

// Seconds of a copy, the least of many.
double took_s(std::byte* to, const std::byte* from, std::size_t nbytes) {
  std::int64_t least_ns = INT64_MAX;
  for (int turn = 0; turn < 40; turn++) {
    auto began_ns = ringtree::now_ns();
    copy_bytes(to, from, nbytes);
    least_ns = std::min(least_ns, ringtree::now_ns() - began_ns);
  }
  return static_cast<double>(least_ns) * 1e-9;
}

constexpr double most_times = 5;  // `rep movsb` on Zen 3: 20

}  // namespace

// "timed": times as well, which say nothing under sanitizers.
int main(int arguments, char**) {
  bool right = true;
  Pages sources, targets;
  for (std::size_t nbytes : {0, 1, 63, 2111, 2112, 2113, 2200, 4096, 5001, 65536 + 7, 512 << 10, (512 << 10) + 1})
    for (std::size_t source : {0, 1, 16, 40, 64})
      for (std::size_t behind : {0, 1, 8, 16, 31, 32, 64, 2048})
        right &= moves(sources, targets, source, behind, nbytes);
  for (std::size_t nbytes : {4096, 65536, 512 << 10})
    for (std::size_t behind : {1, 16, 31}) {
      if (arguments < 2) break;
      auto usual_s = took_s(targets.at + 2048, sources.at, nbytes),
           here_s = took_s(targets.at + behind, sources.at, nbytes);
      if (here_s <= most_times * usual_s + 1e-6) continue;
      std::fprintf(stderr, "%zu bytes to %zu behind take %.1f us, elsewhere %.1f\n", nbytes, behind, here_s * 1e6,
                   usual_s * 1e6);
      right = false;
    }
  if (!right) return EXIT_FAILURE;
  std::printf("copies move their bytes and no others%s\n", arguments > 1 ? ", as quickly to anywhere" : "");
}
