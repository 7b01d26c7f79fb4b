// The recorder of a rank: the events of its calls and their times, during a recording.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "interpreter/call.h"
#include "machine.h"
#include "memory/mapping.h"

namespace ringtree {

// Time as the cores count it: read in a few ns, alike on all of them, since an unknown moment.
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
  static const bool counted;  // whether the counter runs at one pace in every state of the core
#endif
};

// One writer at a time, whose call it is; anybody may read what is there already. The counter is read once an event, so
// that the end of one is the start of the next; a core may read it ahead of its turn, by as much as a load takes.
class Recorder {
 public:
  // As ringtree.ir.trace.Event; and an arrival, which belongs to the wait that follows it.
  enum class Did : std::int32_t { copy, reduce, send, wait, stall, arrival = 6 };
  struct Event {
    std::uint64_t start, end;  // ticks
    std::uint64_t nbytes;
    std::int32_t peer, chunk;
    std::int32_t call;  // a position in calls()
    Did did;
  };

  // Keeps `most` events and counts the rest. Their memory is allocated at once: growth would cost 2 ns an event.
  // `lazily`: allocates for few, as there may be thousands of groups.
  Recorder(std::size_t most, bool lazily);

  // A call begins. Where it `sends_at_once`, the clock is read when its first message is out: while that is on its
  // way, the reading costs nothing.
  void begin(const Fingerprint& print, bool sends_at_once) {
    if (call_ < 0 || !(print == print_)) call_ = position_of(print_ = print);
    last_ = sends_at_once ? unknown : Ticks::now();
  }

  // Records the work since the last event of this call, or since resume().
  void note(Did did, int peer, std::size_t nbytes, int chunk) {
    auto start = std::exchange(last_, Ticks::now());
    add({start, last_, nbytes, peer, chunk, call_, did});
  }

  // The same for an event hardly longer than a reading of the clock; it has no length.
  void note_moment(Did did, int peer, std::size_t nbytes, int chunk) {
    add({last_, last_, nbytes, peer, chunk, call_, did});
  }

  // A copy or a reduction.
  void note_work(Did did, int peer, std::size_t nbytes, int chunk) {
    nbytes <= short_work ? note_moment(did, peer, nbytes, chunk) : note(did, peer, nbytes, chunk);
  }
  static constexpr std::size_t short_work = 1024, first_bytes = 40 * Mapping::page;

  // A message is out.
  void note_send(int peer, std::size_t nbytes, int chunk) {
    if (last_ == unknown) resume();
    note_moment(Did::send, peer, nbytes, chunk);
  }

  // The message of the wait that is noted next came from another host then.
  void note_arrival(int peer, std::uint64_t at) { add({at, at, 0, peer, -1, call_, Did::arrival}); }

  // A message, at its sender or receiver: what its call is, and its number between the two in place of a chunk.
  void note_message(const Fingerprint& print, Did did, std::uint64_t start, std::uint64_t end, int peer,
                    std::size_t nbytes, std::uint64_t number) {
    if (call_ < 0 || !(print == print_)) call_ = position_of(print_ = print);
    add({start, end, nbytes, peer, static_cast<std::int32_t>(number & INT32_MAX), call_, did});
  }

  // The time since the last event belongs to no event.
  void resume() { last_ = Ticks::now(); }
  // A wait for room begins, which note() ends.
  void stall() {
    if (last_ == unknown) resume();
  }

  std::vector<Event> events() const;
  std::vector<Fingerprint> calls() const;
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Ticks as seconds of CLOCK_MONOTONIC, by both clocks' readings when recording began and when this was made.
  class Clock {
   public:
    double seconds(std::uint64_t ticks) const {
      auto since = static_cast<std::int64_t>(ticks - first_.ticks);  // a message may arrive before recording begins
      return (static_cast<double>(first_.ns) + static_cast<double>(since) * pace_) * 1e-9;
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
    if (next_.load(std::memory_order_relaxed) == end_ && !extend()) return;
    auto at = next_.load(std::memory_order_relaxed);
    *at = event;
    next_.store(at + 1, std::memory_order_release);  // pairs with events()
  }
  bool extend() { return extend(Mapping::large_page, Mapping::large_page); }
  bool extend(std::size_t nbytes, std::size_t alignment);
  std::int32_t position_of(const Fingerprint& print);

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Chunk {
    std::unique_ptr<Event, Free> events;
    std::size_t size;
  };

  std::size_t room_;  // number of further events that may get chunks
  std::atomic<Event*> next_ = nullptr;
  Event* end_ = nullptr;
  std::atomic<std::uint64_t> dropped_ = 0;
  static constexpr std::uint64_t unknown = 0;
  std::uint64_t last_ = unknown;
  Fingerprint print_;
  std::int32_t call_ = -1;
  mutable std::mutex mutex_;  // guards these
  std::vector<Chunk> chunks_;
  std::vector<Fingerprint> calls_;
  Clock::Moment began_;
};

// A rank's last recorder. Who reads it keeps it, also where another thread ends the recording or begins one anew.
class LastRecorder {
 public:
  Recorder* begin(std::size_t most, bool lazily) {
    auto made = std::make_shared<Recorder>(most, lazily);
    exchange(made);
    return made.get();
  }
  void forget() { exchange(nullptr); }
  std::shared_ptr<const Recorder> get() const {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  // The one before is freed without the lock.
  void exchange(std::shared_ptr<Recorder> next) {
    std::lock_guard lock(mutex_);
    last_.swap(next);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Recorder> last_;
};

}  // namespace ringtree
