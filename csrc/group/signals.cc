#include "group/signals.h"

#include <stdexcept>

namespace ringtree {

namespace {

struct Signalled : Situation {
  explicit Signalled(int index) : index(index) {}
  std::string where() const override { return "wait_signal, index " + std::to_string(index); }
  bool abandon() override { return true; }
  int index;
};

}  // namespace

Signals::Signals(Endpoint& endpoint) : endpoint_(endpoint), used_(std::size_t(endpoint.ranks()) * indices) {}

Counter& Signals::counter(int from, int to, int index) {
  int peer = from == endpoint_.rank() ? to : from;
  if (peer < 0 || peer >= endpoint_.ranks())
    throw std::invalid_argument("peer " + std::to_string(peer) + " of " + std::to_string(endpoint_.ranks()) + " ranks");
  if (endpoint_.elsewhere(peer))
    throw std::invalid_argument(
        endpoint_.name(peer) + " is on another host than " + endpoint_.name(endpoint_.rank()) +
        ": signals reach ranks of one host (see Communicator.hosts); expected such a rank, or a message: "
        "send here, recv there");
  if (index < 0 || index >= indices)
    throw std::invalid_argument("signal " + std::to_string(index) + ": expected 0.." + std::to_string(indices - 1));
  return endpoint_.segment().signals(from, to)[index];
}

// The addition releases and the load in wait() acquires: a rank that sees the k-th signal sees all writes before it,
// and what a waiter read is read before its own next signal. Additions of several threads form one release sequence.
void Signals::send(int peer, int index) {
  counter(endpoint_.rank(), peer, index).fetch_add(1, std::memory_order_release);
  endpoint_.ring(peer);
}

void Signals::wait(int peer, int index, std::uint64_t count, double timeout_s, Hooks& hooks) {
  auto& sent = counter(peer, endpoint_.rank(), index);
  struct Waiting {
    explicit Waiting(std::atomic<int>& n) : n(n) { n.fetch_add(1); }
    ~Waiting() { n.fetch_sub(1); }
    std::atomic<int>& n;
  } waiting(waiting_);
  auto& used = used_[std::size_t(peer) * indices + index];
  Signalled situation(index);
  for (Endpoint::Patience patience(timeout_s);;) {
    auto before = used.load(std::memory_order_relaxed), needed = before + count;
    Question has_come([](auto& sent, auto& needed) { return sent.load(std::memory_order_acquire) >= needed; }, &sent,
                      &needed);
    if (!has_come()) {
      if (!patience.begun_ns) patience.begun_ns = now_ns();
      endpoint_.until(has_come, peer, situation, hooks, patience);
    }
    // Each signal serves one waiter: another thread may have taken these.
    if (used.compare_exchange_strong(before, needed, std::memory_order_relaxed)) return;
  }
}

void Signals::end() {
  while (waiting_.load() != 0) sched_yield();
}

}  // namespace ringtree
