// Who speaks of a straggler: of all ranks that wait for it, one.
#pragma once

#include <optional>
#include <vector>

#include "waits/long_waits.h"

namespace ringtree {

// What a rank (`me`) that waits for `peer` finds in the long waits of its host; ranks are the world's. `circle`: the
// ranks that wait for each other, from `me` on; empty where `peer` waits for nobody. None where another rank speaks:
// one that waits for the same rank, or is next to the straggler, or in the circle; it has a lower number then, or is
// nearer.
struct Straggler {
  std::vector<int> circle;
};
std::optional<Straggler> straggler(const LongWaits& waits, int me, int peer);

}  // namespace ringtree
