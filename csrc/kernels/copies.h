// Copies to memory that nobody reads soon.
#pragma once

#include <cstddef>

namespace ringtree {

// As memcpy, past the caches: without a fetch of the target's lines first, and without a place for them. Its stores are
// over when it returns, so that a release store covers them.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t nbytes);

// Bytes of the last cache, at most 32 MiB for each core that shares it; more than these do not stay in it.
std::size_t last_cache_bytes();

}  // namespace ringtree
