// Copies: to memory of any alignment, and to memory that nobody reads soon.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringtree {

// Whether the target lies 1 to 31 bytes behind the source, both counted from the beginnings of their pages, as an array
// from malloc does behind memory that begins with a page. `rep movsb` takes 10 to 20 times as long there on AMD's Zen 3
// (2 GB/s), by which glibc copies 2 to 512 KiB (bug 30994), and Linux what it reads for a process.
inline bool is_just_behind(const std::byte* to, const std::byte* from) {
  constexpr std::uintptr_t page = 4096, close = 32;
  auto behind = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return behind > 0 && behind < close;
}

// As memcpy, at its usual rate wherever the two lie.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes);

// As memcpy, past the caches: without a fetch of the target's lines first, and without a place for them. Its stores are
// over when it returns, so that a release store covers them.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes);

// Bytes of the last cache, at most 32 MiB for each core that shares it; more than these do not stay in it.
std::size_t last_cache_bytes();

}  // namespace ringtree
