// How a rank proves to another that both are of one job.
#pragma once

#include <array>
#include <cstddef>

namespace ringtree {

// A keyed digest of the group, of both ranks in their order, of a nonce of each, and of whether it opens or answers.
using Proof = std::array<std::byte, 32>;

// Takes as long for any two proofs.
inline bool same(const Proof& one, const Proof& other) {
  int differs = 0;
  for (std::size_t i = 0; i < one.size(); i++) differs |= std::to_integer<int>(one[i] ^ other[i]);
  return differs == 0;
}

}  // namespace ringtree
