#include "kernels/copies.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "machine.h"

namespace ringtree {

#if defined(__SSE2__)
namespace {

// From the last line to the first: no load is of bytes whose place in a page was just stored to, which a processor
// takes for the same place until it knows both addresses whole.
void copy_backwards(std::byte* to, const std::byte* from, std::size_t nbytes) {
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % cache_line;
  std::size_t end = head + (nbytes - head) / cache_line * cache_line;
  std::memcpy(to + end, from + end, nbytes - end);
  for (std::size_t at = end; at > head; at -= cache_line) {
    __m128i parts[cache_line / sizeof(__m128i)];
    for (std::size_t k = 0; k < std::size(parts); k++)
      parts[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at - cache_line) + k);
    for (std::size_t k = std::size(parts); k-- > 0;)
      _mm_store_si128(reinterpret_cast<__m128i*>(to + at - cache_line) + k, parts[k]);
  }
  std::memcpy(to, from, head);
}

// Whole lines, each stored at once, or it is fetched: in two vectors where the processor has them, in four otherwise.
// Four took up to 1.35 times as long on AMD's Zen 3.
__attribute__((target("avx"))) void stream_lines_by_two(std::byte* to, const std::byte* from, std::size_t nbytes) {
  for (std::size_t at = 0; at < nbytes; at += cache_line) {
    auto first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    auto second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at) + 1);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), first);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at) + 1, second);
  }
}

void stream_lines_by_four(std::byte* to, const std::byte* from, std::size_t nbytes) {
  for (std::size_t at = 0; at < nbytes; at += sizeof(__m128i)) {
    auto value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), value);
  }
}

auto stream_lines() {
#if !defined(RINGTREE_BASE_KERNELS_ONLY)
  if (__builtin_cpu_supports("avx")) return stream_lines_by_two;
#endif
  return stream_lines_by_four;
}

}  // namespace

void copy_long(std::byte* to, const std::byte* from, std::size_t nbytes) {
  constexpr std::size_t most = 1 << 20;  // of what glibc may copy by `rep movsb`: to the size of a core's second cache
  if (nbytes > most || !is_just_behind(to, from))
    std::memcpy(to, from, nbytes);
  else
    copy_backwards(to, from, nbytes);
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes) {
  constexpr std::size_t worth = 4 * cache_line;
  if (nbytes < worth) {
    std::memcpy(to, from, nbytes);
    return;
  }
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % cache_line;
  std::memcpy(to, from, head);
  std::size_t end = head + (nbytes - head) / cache_line * cache_line;
  stream_lines()(to + head, from + head, end - head);
  std::memcpy(to + end, from + end, nbytes - end);
  _mm_sfence();
}
#else
void copy_long(std::byte* to, const std::byte* from, std::size_t nbytes) {
  std::memcpy(to, from, nbytes);
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes) {
  std::memcpy(to, from, nbytes);
}
#endif

void move_bytes(std::byte* to, const std::byte* from, std::size_t nbytes) {
  if (to + nbytes <= from || from + nbytes <= to)
    copy_bytes(to, from, nbytes);
  else
    std::memmove(to, from, nbytes);
}

namespace {

constexpr std::size_t most_of_a_core = std::size_t(32) << 20;

// The first line of a file about the first core's last cache; "" where there is none.
std::string line_of(const char* name) {
  char line[4096] = "";
  auto path = std::string("/sys/devices/system/cpu/cpu0/cache/index3/") + name;
  if (auto file = std::fopen(path.c_str(), "re")) {
    if (!std::fgets(line, sizeof line, file)) line[0] = 0;
    std::fclose(file);
  }
  return line;
}

}  // namespace

// As Linux tells it for the first core; sysconf counts the caches of all sockets on some machines. A virtual machine
// may show a few cores the cache that the processor's many share.
std::size_t last_cache_bytes() {
  static const std::size_t found = [] {
    std::size_t kib = std::strtoull(line_of("size").c_str(), nullptr, 10), cores = 0;
    for (char digit : line_of("shared_cpu_map"))
      if (std::isxdigit(static_cast<unsigned char>(digit)))
        cores += std::popcount(static_cast<unsigned>(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10));
    return std::min(kib ? kib << 10 : most_of_a_core, std::max<std::size_t>(cores, 1) * most_of_a_core);
  }();
  return found;
}

}  // namespace ringtree
