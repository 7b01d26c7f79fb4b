// What the survivors of a group agree on in its memory: who goes on without the others, turn by turn.
//
// Each survivor arrives at a turn. Whoever finds that all have come that can decides, by one compare-and-swap: the
// first decision of a turn is everybody's, and stays when the one that made it dies. It works in a group that has
// failed, and asks nobody to be alive but the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "memory/segment.h"

namespace ringtree {

class Agreement {
 public:
  struct Arrival {
    std::uint32_t turn = 0;  // the last one it came to; 0: none
    bool ready = false;      // whether it had done what the turn before asked for
    bool shunned = false;    // a survivor goes on without this one
  };
  // `made`: the members have done what they were to do. Turn 0: nothing was decided.
  struct Decision {
    std::uint32_t turn = 0;
    bool made = false;
    std::vector<int> members{};
  };

  Agreement(Segment& segment, int rank) : segment_(segment), rank_(rank) {}

  // This rank comes to a turn, later than its last one; it goes on without the ranks of `shunned`.
  void arrive(std::uint32_t turn, bool ready, const std::vector<int>& shunned);
  std::vector<Arrival> arrivals();
  // Whether this is the decision of its turn: no turn but the next one can be decided. One thread at a time.
  bool decide(const Decision& decision);
  // The last one.
  Decision decision();

 private:
  void prepare();
  Ballot& ballot(int rank) { return segment_.ballot(rank); }

  Segment& segment_;
  int rank_;
};

}  // namespace ringtree
