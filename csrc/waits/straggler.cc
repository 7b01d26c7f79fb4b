#include "waits/straggler.h"

#include <algorithm>

namespace ringtree {

namespace {

// The rank that `rank` waits for, by its oldest wait; -1: none.
int awaited(const LongWaits& waits, int rank) {
  auto found = waits.of(rank);
  auto first = std::min_element(found.begin(), found.end(), [](auto& a, auto& b) { return a.since_ns < b.since_ns; });
  return first == found.end() ? -1 : first->peer;
}

bool waits_for(const LongWaits& waits, int rank, int peer) {
  auto found = waits.of(rank);
  return std::any_of(found.begin(), found.end(), [&](auto& wait) { return wait.peer == peer; });
}

}  // namespace

std::optional<Straggler> straggler(const LongWaits& waits, int me, int peer) {
  Straggler found;
  std::vector<int> path{me};
  for (int at = peer; at >= 0; at = awaited(waits, at)) {
    if (at == me) {
      found.circle = path;
      break;
    }
    if (std::find(path.begin(), path.end(), at) != path.end()) return {};  // a circle without this rank
    path.push_back(at);
  }
  if (!found.circle.empty())
    return *std::min_element(path.begin(), path.end()) == me ? std::optional(found) : std::nullopt;
  if (path.size() > 2) return {};
  for (int rank = 0; rank < me; rank++)
    if (rank != peer && waits_for(waits, rank, peer)) return {};
  return found;
}

}  // namespace ringtree
