// What a rank did, and when: the events of its calls, written down while somebody wants to know.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "call.h"
#include "machine.h"

namespace ringtree {

// Time as the cores count it: read in a few ns, alike on all of them, since some moment that nobody knows.
class Ticks {
 public:
  static std::uint64_t now() {
#if defined(__x86_64__)
    if (counted) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
    return static_cast<std::uint64_t>(now_ns());
  }

 private:
#if defined(__x86_64__)
  static const bool counted;  // whether the counter runs at one pace, whatever the core does
#endif
};

// One writer, whose call it is; anybody may read what is there already. The counter is read once an event, so that the
// end of one is the start of the next; a core may read it ahead of its turn, by as much as a load takes.
class Recorder {
 public:
  enum class Did : std::int32_t { copy, reduce, send, wait, stall };  // as ringtree.ir.trace.Event
  struct Event {
    std::uint64_t start, end;  // ticks
    std::uint64_t nbytes;
    std::int32_t peer, chunk;
    std::int32_t call;  // a place in calls()
    Did did;
  };

  // Keeps `most` events and counts the rest. Memory is taken as it fills.
  explicit Recorder(std::size_t most);

  void begin(const Fingerprint& print) {
    if (call_ < 0 || !(print == print_)) call_ = place_of(print_ = print);
    last_ = Ticks::now();
  }

  // What was done since the last event of this call, or since resume().
  void note(Did did, int peer, std::size_t nbytes, int chunk) {
    auto start = std::exchange(last_, Ticks::now());
    add({start, last_, nbytes, peer, chunk, call_, did});
  }

  // A message goes out now, which takes no longer than it takes to tell the time.
  void note_send(int peer, std::size_t nbytes, int chunk) {
    add({last_, last_, nbytes, peer, chunk, call_, Did::send});
  }

  // What was done since then is none of the events.
  void resume() { last_ = Ticks::now(); }

  std::span<const Event> events() const { return {events_.get(), size_.load(std::memory_order_acquire)}; }
  std::vector<Fingerprint> calls() const;
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Ticks as seconds of CLOCK_MONOTONIC, by what both said when recording began and when this was made.
  class Clock {
   public:
    double seconds(std::uint64_t ticks) const {
      return (static_cast<double>(first_.ns) + static_cast<double>(ticks - first_.ticks) * pace_) * 1e-9;
    }

   private:
    friend Recorder;
    struct Moment {
      std::uint64_t ticks;
      std::int64_t ns;
      static Moment now();
    };
    Clock(Moment first, Moment last);
    Moment first_;
    double pace_;  // ns a tick
  };
  Clock clock() const { return {began_, Clock::Moment::now()}; }

 private:
  void add(const Event& event) {
    auto at = size_.load(std::memory_order_relaxed);
    if (at == ready_ && !make_ready()) return;
    events_[at] = event;
    size_.store(at + 1, std::memory_order_release);  // pairs with events()
  }
  bool make_ready();
  std::int32_t place_of(const Fingerprint& print);

  std::size_t most_;
  std::size_t ready_ = 0;  // events that there is memory for already
  std::unique_ptr<Event[]> events_;
  std::atomic<std::size_t> size_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::uint64_t last_ = 0;
  Fingerprint print_;
  std::int32_t call_ = -1;
  mutable std::mutex mutex_;  // guards the next
  std::vector<Fingerprint> calls_;
  Clock::Moment began_;
};

}  // namespace ringtree
