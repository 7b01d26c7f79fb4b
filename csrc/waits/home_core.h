// The core that a rank of a group with more ranks than cores keeps to, as many of them to each.
//
// The kernel evens out how many threads run on each core, but seldom: ranks that give their cores to each other stay as
// they began, and 5 and 3 of 8 ranks on 2 cores take 1.8 times as long for a barrier as 4 and 4. So a rank that finds
// itself elsewhere moves. It may run on all its cores as before, and the kernel may move it when it has reason to; each
// move makes the next one rarer.
#pragma once

#include <atomic>

namespace ringtree {

class HomeCore {
 public:
  // -1: none.
  explicit HomeCore(int core) : core_(core) {}

  // Called when a rank has to wait. Looks where it runs now and then.
  void visit() {
    if (core_ < 0) return;
    auto left = until_look_.load(std::memory_order_relaxed);
    if (left > 0)
      until_look_.store(left - 1, std::memory_order_relaxed);
    else
      look();
  }

 private:
  [[gnu::cold, gnu::noinline]] void look();

  int core_;
  std::atomic<int> until_look_ = 0, between_looks_ = 16;  // visits; any thread's
};

}  // namespace ringtree
