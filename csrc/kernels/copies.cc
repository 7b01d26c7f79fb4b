#include "kernels/copies.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "machine.h"

namespace ringtree {

#if defined(__SSE2__)
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes) {
  constexpr std::size_t worth = 4 * cache_line;
  if (nbytes < worth) {
    std::memcpy(to, from, nbytes);
    return;
  }
  std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % cache_line;
  std::memcpy(to, from, head);
  std::size_t end = head + (nbytes - head) / cache_line * cache_line;
  for (std::size_t at = head; at < end; at += cache_line)
    for (std::size_t part = at; part < at + cache_line; part += sizeof(__m128i)) {  // a line at once, or it is fetched
      auto value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part), value);
    }
  std::memcpy(to + end, from + end, nbytes - end);
  _mm_sfence();
}
#else
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes) {
  std::memcpy(to, from, nbytes);
}
#endif

// As Linux tells it for the first core; sysconf counts the caches of all sockets on some machines.
std::size_t last_cache_bytes() {
  static const std::size_t found = [] {
    std::size_t kib = 0;
    if (auto file = std::fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re")) {
      if (std::fscanf(file, "%zuK", &kib) != 1) kib = 0;
      std::fclose(file);
    }
    return (kib ? kib : 32 << 10) << 10;
  }();
  return found;
}

}  // namespace ringtree
