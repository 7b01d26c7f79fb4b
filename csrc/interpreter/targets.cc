#include "interpreter/targets.h"

#include <algorithm>

#include "kernels/copies.h"

namespace ringtree {

namespace {

constexpr std::size_t pass_bytes = 8192;  // what one pass leaves in L1 for the next

}  // namespace

void copy_to(void* const* targets, int ntargets, const void* source, std::size_t nbytes, bool past_caches) {
  if (ntargets == 1 && !past_caches) {
    if (nbytes && targets[0] != source)  // of no bytes there is no memory
      copy_bytes(static_cast<std::byte*>(targets[0]), static_cast<const std::byte*>(source), nbytes);
    return;
  }
  auto part = ntargets == 1 ? nbytes : pass_bytes;
  for (std::size_t at = 0; at < nbytes; at += part)
    for (int k = 0; k < ntargets; k++) {
      auto to = static_cast<std::byte*>(targets[k]) + at;
      auto from = static_cast<const std::byte*>(source) + at;
      if (to == from) continue;
      if (past_caches && k == 0)
        copy_past_caches(to, from, std::min(part, nbytes - at));
      else
        copy_bytes(to, from, std::min(part, nbytes - at));
    }
}

// The kernel fills one target, and copies fill the rest from L1, block by block: a copy takes over lines that a peer
// has read without fetching them first, as the stores of a kernel do.
void reduce_to(void* const* targets, int ntargets, const Sum& sum, std::size_t count, bool past_caches) {
  if (ntargets == 1 && !past_caches) return sum.reduce(targets[0], sum.sources, sum.nsources, count);
  alignas(64) std::byte passing[pass_bytes];
  auto nbytes = count * sum.item;
  for (std::size_t at = 0; at < nbytes; at += pass_bytes) {
    auto part = std::min(pass_bytes, nbytes - at);
    auto first = static_cast<std::byte*>(targets[0]) + at;
    auto filled = past_caches ? passing : first;
    sum.reduce(filled, sum.sources, sum.nsources, part / sum.item);
    for (int k = 1; k < ntargets; k++) copy_bytes(static_cast<std::byte*>(targets[k]) + at, filled, part);
    if (past_caches) copy_past_caches(first, filled, part);
    for (int k = 0; k < sum.nsources; k++) sum.sources[k] = static_cast<const std::byte*>(sum.sources[k]) + part;
  }
}

}  // namespace ringtree
