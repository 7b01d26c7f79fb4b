// The other ranks that keep to a rank's core, and when it keeps that core from them.
//
// A rank that waits gives its core away: one that shares it may be the one that has to come. Once all of those have
// begun the call that the rank is in, they have sent what they send before they wait, and like it they wait for a rank
// of another core, which runs. The core would go round among them until that one comes, a context switch each. So the
// rank that has the core asks some times more before it gives it away, in short exchanges: calls in which it sends and
// receives, and moves little. In other calls a neighbour has work of its own, or a rank that only sends gets ahead.
// Where it was in vain (the awaited rank computes, or another program has its core), the next waits do not, more of
// them each time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "memory/segment.h"

namespace ringtree {

class Neighbours {
 public:
  static constexpr int most_questions = 60;  // some microseconds, as a turn of the core's ranks takes

  // `cores`: the one that each rank keeps to, -1 for none, or empty.
  Neighbours(Segment& segment, int rank, const std::vector<int>& cores) : segment_(segment), here_(cores.size()) {
    for (std::size_t each = 0; each < cores.size(); each++) {
      here_[each] = cores[each] >= 0 && cores[each] == cores[rank];
      if (here_[each] && static_cast<int>(each) != rank) ranks_.push_back(static_cast<int>(each));
    }
  }

  // Whether a wait for `peer` (-1: any, none) in that call (0: in no short exchange) keeps the core for another
  // question. `questions`: for which it has so far.
  bool keep_core(int peer, std::uint64_t call, int& questions) {
    if (ranks_.empty() || call == 0 || questions > most_questions || peer < 0 || here_[peer]) return false;
    if (questions == 0 && !std::ranges::all_of(ranks_, [&](int rank) { return has_begun(rank, call); })) return false;
    if (questions == 0 && skipped_.load(std::memory_order_relaxed) > 0) {
      skipped_.fetch_sub(1, std::memory_order_relaxed);
      questions = most_questions + 1;
      return false;
    }
    if (questions++ < most_questions) return true;
    auto more = std::min(2 * in_vain_.load(std::memory_order_relaxed) + 1, most_skipped);
    in_vain_.store(more, std::memory_order_relaxed);
    skipped_.store(more, std::memory_order_relaxed);
    return false;
  }
  // The end of a wait after so many such questions.
  void came(int questions) {
    if (questions > 0 && questions <= most_questions) in_vain_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int most_skipped = 255;

  bool has_begun(int rank, std::uint64_t call) const {
    auto& record = segment_.member(rank).calls[call % Member::remembered];
    return record.version.load(std::memory_order_relaxed) >= 2 * call;  // a hint
  }

  Segment& segment_;
  std::vector<char> here_;  // whether each rank keeps to this one's core
  std::vector<int> ranks_;
  std::atomic<int> in_vain_ = 0, skipped_ = 0;  // any thread's
};

}  // namespace ringtree
