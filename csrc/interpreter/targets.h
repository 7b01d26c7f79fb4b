// Copies and reductions to an array of the caller's, a slot, or both.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace ringtree {

struct Sum {
  Reduce reduce;
  const void** sources;  // advanced as the sum goes on
  int nsources;
  std::size_t item;  // bytes
};

// Both take one or two targets; `past_caches` sends what the first gets past the caches, as nobody reads it soon.
void copy_to(void* const* targets, int ntargets, const void* source, std::size_t nbytes, bool past_caches);
void reduce_to(void* const* targets, int ntargets, const Sum& sum, std::size_t count, bool past_caches);

}  // namespace ringtree
