// Signals: counters by which a rank reports to another that it has written to shared memory; each pair has several, by
// index.
#pragma once

#include <vector>

#include "waits/wait.h"

namespace ringtree {

class Signals {
 public:
  static constexpr int indices = cache_line / sizeof(Counter);

  explicit Signals(Endpoint& endpoint);

  void send(int peer, int index);
  // Waits for `count` more signals than were waited for before. One that times out leaves the group whole.
  void wait(int peer, int index, std::uint64_t count, double timeout_s, Hooks& hooks);
  // Returns when no thread waits any more, which is soon once the endpoint is stopping.
  void end();

 private:
  Counter& counter(int from, int to, int index);

  Endpoint& endpoint_;
  std::atomic<int> waiting_ = 0;
  std::vector<Counter> used_;  // by peer and index: how many were waited for here
};

}  // namespace ringtree
