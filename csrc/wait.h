// Waiting, in one place: spin, then yield, then sleep; and what a slow wait looks at.
#pragma once

#include <atomic>
#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "error.h"
#include "segment.h"
#include "watch.h"

namespace ringtree {

// What the host language wants to be told during a wait.
struct Hooks {
  virtual ~Hooks() = default;
  virtual void blocking() {}     // the first short spin failed: let go of locks of the host
  virtual void interrupted() {}  // every 50 ms; throws Interrupted when the host wants the wait to end
};

// What is being waited for.
struct Situation {
  virtual ~Situation() = default;
  virtual std::string where() const = 0;    // as in "all_reduce, call 17"
  virtual void help() {}                    // does what others may wait for in turn; called often
  virtual void inspect() {}                 // looks for what will never come, and throws
  virtual bool abandon() { return false; }  // gives up; true if that leaves the group whole
};

// One rank's seat: who it is, how it waits, how it fails.
class Seat {
 public:
  struct Options {
    double timeout_s = 300;
    bool crowded = false;  // more ranks than cores: yield at once
    std::vector<std::string> names;
  };

  Seat(Segment& segment, int rank, Kin kin, Options options);

  // How long a wait may take; several waits may share one that began earlier.
  struct Patience {
    explicit Patience(double seconds) : seconds(seconds) {}
    double seconds;
    std::int64_t begun_ns = 0;  // 0: when the wait turns out to be slow
  };

  // Returns when ready() is true. `peer` is who makes it so (-1: anyone).
  template <std::predicate Ready>
  void until(Ready ready, int peer, Situation& situation, Hooks& hooks, Patience patience) {
    if (ready()) return;
    for (int i = spins_.load(std::memory_order_relaxed); i > 0; i--) {
      pause();
      if (ready()) return;
    }
    slow([](void* r) { return (*static_cast<Ready*>(r))(); }, &ready, peer, situation, hooks, patience);
  }
  template <std::predicate Ready>
  void until(Ready ready, int peer, Situation& situation, Hooks& hooks) {
    until(ready, peer, situation, hooks, Patience(timeout_s()));
  }

  // Wakes `peer` if it sleeps; whether it did. Called after a release store that it may wait for. There is no fence
  // between that store and this load, so a peer that is just falling asleep may be missed; it then wakes by itself
  // within 1 ms.
  bool ring(int peer) {
    auto& bell = segment_.member(peer).bell;
    if (bell.load(std::memory_order_relaxed) == 0) return false;
    wake(bell);
    return true;
  }

  // Wakes the thread that sees to `peer`'s messages, if it sleeps. Called after a release store to a pipe.
  void call_courier(int peer) {
    auto& member = segment_.member(peer);
    if (member.has_courier.load(std::memory_order_relaxed) == 0) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Courier::arm()
    if (member.courier.load(std::memory_order_relaxed) == 1) wake(member.courier);
  }

  // Fails the group for every member; the first to do so gives the reason, and throws it here too.
  [[noreturn]] void fail(Failure kind, int rank, const std::string& text);
  void poison(Failure kind, int rank, const std::string& text);
  bool poisoned() const { return segment_.header().poison.state.load(std::memory_order_relaxed) != 0; }
  // The failure itself the first time, then that the group can no longer be used.
  [[noreturn]] void raise_poison();

  void leave();
  const Kin& kin() const { return watch_.kin(); }
  bool left(int peer) const { return segment_.member(peer).left.load(std::memory_order_acquire) != 0; }

  int rank() const { return rank_; }
  int ranks() const { return segment_.layout().ranks; }
  double timeout_s() const { return timeout_s_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_s_.store(seconds, std::memory_order_relaxed); }
  const std::vector<std::string>& names() const { return options_.names; }
  std::string name(int rank) const { return "rank " + options_.names[rank]; }
  Segment& segment() { return segment_; }

  // For waits elsewhere on these peers: throws if the group failed, one of them died, or one that is absent there left.
  void look(std::span<const int> ranks, std::span<const int> absent, Situation& situation);
  // Fails the group if a member died, without throwing; `peer` is who is waited for (-1: anyone).
  void look_for_dead(int peer, Situation& situation);

  std::atomic<bool> stopping = false;  // the seat is being given up: waits end

 private:
  using Ready = bool (*)(void*);
  // Whether `rank` died; fails the group then.
  bool found_dead(int rank, int peer, Situation& situation);
  void slow(Ready ready, void* of, int peer, Situation& situation, Hooks& hooks, Patience patience);
  // Lets others have the core, and learns from how long that takes whether it is worth to spin.
  void yield();
  void sleep(Ready ready, void* of);
  static void wake(std::atomic<std::uint32_t>& bell);

  Segment& segment_;
  int rank_;
  Options options_;
  std::atomic<double> timeout_s_;  // of waits that begin; any thread sets it
  Watch watch_;
  std::atomic<int> spins_;
  std::atomic<bool> told_ = false;
};

}  // namespace ringtree
