// Copies: to memory of any alignment, and to memory that nobody reads soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ringtree {

// Whether the target lies 1 to 31 bytes behind the source, both counted from the beginnings of their pages, as a long
// array from malloc does behind memory that begins with a page. On AMD's Zen 3, `rep movsb` moves 2 GB/s there, a
// twentieth of its usual rate. glibc copies 2 to 512 KiB by it (bug 30994), and Linux all that it reads for a process.
inline bool is_just_behind(const std::byte* to, const std::byte* from) {
  constexpr std::uintptr_t page = 4096, close = 32;
  auto behind = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return behind > 0 && behind < close;
}

// As memcpy, at its usual rate wherever the two lie. Short copies are inlined, for each instruction of a call counts.
void copy_long(std::byte* to, const std::byte* from, std::size_t nbytes);
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes) {
  constexpr std::size_t least = 2112;  // of what glibc copies by `rep movsb`
  if (nbytes < least)
    std::memcpy(to, from, nbytes);
  else
    copy_long(to, from, nbytes);
}

// The same where the two may overlap, as memmove.
void move_bytes(std::byte* to, const std::byte* from, std::size_t nbytes);

// As memcpy, past the caches: without a fetch of the target's lines first, and without a place for them. Its stores are
// over when it returns, so that a release store covers them.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes);

// Bytes of the last cache, at most 32 MiB for each core that shares it; more than these do not stay in it.
std::size_t last_cache_bytes();

}  // namespace ringtree
