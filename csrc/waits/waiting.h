// The steps of every wait: spin, yield, sleep, check. What they are made of is a parameter, so that the tests can run
// these very steps under a checker of weak memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace ringtree {

// The sleep of a rank until it is woken. `Sync` supplies the futex.
//
// The doorbell is set before the last work and the last question, so a peer that stores what is waited for after those
// sees the doorbell and rings. There is no fence between the peer's store and its look at the doorbell, so a sleeper
// may miss a ring: the limit of its sleep is the longest that this costs.
template <class Sync>
class Doorbell {
 public:
  using Word = typename Sync::template atomic<std::uint32_t>;

  explicit Doorbell(Word& word) : word_(word) {}

  // Sleeps unless `work` did something or the answer is yes.
  template <class Question, class Work>
  void sleep(const Question& question, Work work, std::int64_t limit_ns) {
    word_.store(1, Sync::arm);
    if (!work() && !question()) Sync::futex_wait(word_, 1, limit_ns);
    word_.store(0, std::memory_order_relaxed);
  }

  // Wakes the sleeper; whether there was one. Called after the release store that may be waited for.
  bool ring() {
    if (word_.load(std::memory_order_relaxed) == 0) return false;
    word_.store(0, std::memory_order_relaxed);
    Sync::futex_wake(word_);
    return true;
  }

 private:
  Word& word_;
};

// Asks a while; the last answer.
template <class Question, class Waiter>
bool spin(const Question& question, Waiter& waiter) {
  for (int left = waiter.spins(); left > 0; left--) {
    waiter.pause();
    if (question()) return true;
  }
  return false;
}

// Returns when the answer is yes. What it takes of a waiter, which is one wait of one rank:
//   yield()          lets others have the core
//   work()           does work that others may wait for; whether there was any
//   tired()          whether it is time to sleep
//   sleep(question)  sleeps until a peer rings, or for a short while
//   check(question)  throws if the answer will never be yes, or the wait has taken too long
template <class Question, class Waiter>
[[gnu::cold, gnu::noinline]] void wait_slowly(const Question& question, Waiter& waiter) {
  for (;;) {
    waiter.yield();
    if (question()) return;
    if (waiter.work()) {  // what has moved is likely to move on
      if (spin(question, waiter)) return;
    } else if (waiter.tired()) {
      waiter.sleep(question);
    }
    if (question()) return;
    waiter.check(question);
  }
}

}  // namespace ringtree
