// Whom a rank waits for in the end, by the long waits of its host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "waits/long_waits.h"

namespace ringtree {

// Ranks of the world, each of which waits for the next, in the call of the same place in `where`. `circle`: the last
// one is among those before it, or is the rank that asks; `stopped`: its process is. `last_waits_in`: the last one's
// wait for any rank; "" where it has none.
struct ChainOfWaits {
  std::vector<int> all;
  std::vector<std::string> where{};
  bool circle = false, stopped = false;
  std::string last_waits_in{};
};

// The chain that begins with `first` and goes on as long as a wait has lasted for 200 ms, or for a quarter of its
// limit, or gave up within the last second: those who began together give up one after the other. It ends at a process
// that is `stopped`. A wait in the group of `memory` counts before others: a thread of its own may wait there for
// something else. `me`: the rank that asks.
ChainOfWaits chain_of_waits(const LongWaits& waits, int me, int first, std::uint64_t memory,
                            const std::function<bool(int)>& stopped);

// The waits of that chain, with who waits, as far as they are known here; at most `most`.
struct Link {
  int rank;
  WaitRecord wait;
};
std::vector<Link> links_of(const LongWaits& waits, int first, std::uint64_t memory, std::size_t most);

}  // namespace ringtree
