// Waiting, in one place: spin, then yield, then sleep; and what a slow wait checks.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "error.h"
#include "health/health.h"
#include "memory/segment.h"
#include "waits/home_core.h"
#include "waits/neighbours.h"
#include "waits/question.h"
#include "waits/relay.h"
#include "waits/waiting.h"

namespace ringtree {

// Callbacks of a wait into the host language.
struct Hooks {
  virtual ~Hooks() = default;
  virtual void blocking() {}     // the first short spin failed: let go of locks of the host
  virtual void interrupted() {}  // every 50 ms; throws Interrupted when the host wants the wait to end
  // Takes the time of a core that a call's copies and reductions take, without waits; nullptr: nobody asks.
  std::int64_t* work_ns = nullptr;
};

// Nanoseconds of a core that the work of a started call took; below 0: it has not ended.
using WorkTime = std::atomic<std::int64_t>;

// Takes the time of one call's work, where that is `asked`, in place of whatever the hooks time: a call that waits for
// an earlier one may run it.
class TimedWork {
 public:
  explicit TimedWork(Hooks& hooks, bool asked = true) : hooks_(hooks), before_(hooks.work_ns) {
    hooks_.work_ns = asked ? &ns_ : nullptr;
  }
  TimedWork(const TimedWork&) = delete;
  ~TimedWork() { hooks_.work_ns = before_; }
  std::int64_t ns() const { return ns_; }

 private:
  Hooks& hooks_;
  std::int64_t* before_;
  std::int64_t ns_ = 0;
};

// The subject of a wait.
struct Situation {
  virtual ~Situation() = default;
  virtual std::string where() const = 0;                      // as in "all_reduce, call 17"
  virtual std::uint64_t short_exchange() const { return 0; }  // the number of such a call (Neighbours); 0: it is none
  virtual std::string noticed() const { return ""; }          // in parentheses: what lies there and may be why it waits
  virtual bool help() { return false; }                 // does work that others may wait for; whether there was any
  virtual bool helps_at_once() const { return false; }  // whether a spin should ask for that work, too
  virtual void inspect() {}                             // looks for what will never come, and throws
  virtual bool abandon() { return false; }              // gives up; true if that leaves the group whole
};

// One rank's endpoint: its rank, its waits, its failures.
class Endpoint {
 public:
  struct Options {
    double timeout_s = 300;
    bool oversubscribed = false;  // more ranks than cores: yield at once
    std::vector<std::string> names;
    std::vector<int> cores;  // that each rank of this host keeps to, see HomeCore; -1: of another; empty: none does
    bool threads = false;    // the ranks are threads of one process, and share the host's lock
    bool confirms = false;   // no call moves anything before all ranks have begun it, and begun the same
    bool made_from_another = false;
    bool takes_turns = false;  // threads may call at once, each in its turn: else the group fails
    // A wait warns of the rank that it waits for after this share of its limit (0: never), and at least so long.
    struct Warning {
      double share = 0, least_s = 0;
    } warning{};
  };

  Endpoint(Segment& segment, int rank, InheritedLiveness inherited, Options options);

  // The time limit of a wait; several waits may share one that began earlier.
  struct Patience {
    explicit Patience(double seconds) : seconds(seconds) {}
    double seconds;
    std::int64_t begun_ns = 0;  // 0: when the wait turns out to be slow
  };

  // Returns when the answer is yes. `peer`: the rank whose writes change the answer (-1: any).
  template <class Ask, class... Of>
  void until(const Question<Ask, Of...>& question, int peer, Situation& situation, Hooks& hooks, Patience patience) {
    if (question()) return;
    Wait wait(*this, peer, situation, hooks, patience);
    if (spin(question, wait)) return;
    Wait::out(question, wait);
  }
  template <class Ask, class... Of>
  void until(const Question<Ask, Of...>& question, int peer, Situation& situation, Hooks& hooks) {
    until(question, peer, situation, hooks, Patience(timeout_s()));
  }

  // Wakes `peer` if it sleeps; whether it did. Called after a release store that it may wait for.
  bool ring(int peer) {
    if (relay_ && relay_->serves(peer)) return relay_->flush(peer), false;
    return doorbell(peer).ring();
  }
  // Wakes this rank's own threads that sleep in a wait.
  void ring_here() { doorbell(rank_).ring(); }

  // Wakes the thread that sees to `peer`'s messages, if it sleeps. Called after a release store to a pipe.
  void wake_progress_thread(int peer) {
    auto& member = segment_.member(peer);
    if (member.has_progress_thread.load(std::memory_order_relaxed) == 0) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in ProgressThread::arm()
    if (member.progress_doorbell.load(std::memory_order_relaxed) == 1) Doorbell<Sync>(member.progress_doorbell).ring();
  }

  // Who serves the lanes to ranks of other hosts; nullptr where all ranks are here.
  Relay* relay() const { return relay_; }
  void set_relay(Relay* relay) { relay_ = relay; }
  bool elsewhere(int peer) const { return relay_ && relay_->serves(peer); }
  // The memory in which a peer's messages are staged.
  std::byte* staging(int peer) { return elsewhere(peer) ? relay_->staging(peer) : segment_.outbox(peer); }

  Health& health() { return health_; }
  // Fails the group for every member; the first to do so gives the reason, and throws it here too.
  [[noreturn]] void fail(Failure kind, int rank, const std::string& text) {
    health_.report_failure(kind, rank, text);
    health_.raise_failure();
  }

  int rank() const { return rank_; }
  int ranks() const { return segment_.layout().ranks; }
  bool oversubscribed() const { return options_.oversubscribed; }
  bool confirms() const { return options_.confirms; }
  bool takes_turns() const { return options_.takes_turns; }
  double timeout_s() const { return timeout_s_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_s_.store(seconds, std::memory_order_relaxed); }
  const std::vector<std::string>& names() const { return options_.names; }
  std::string name(int rank) const { return "rank " + options_.names[rank]; }
  Segment& segment() { return segment_; }

  // For waits elsewhere on these peers: throws if the group failed, one of them died, or one that is absent there left.
  void check_liveness(std::span<const int> ranks, std::span<const int> absent, Situation& situation);
  // Writes a wait for `peer` (-1: any) down where others find it: its place in LongWaits, -1 where there is none.
  int write_down(std::int64_t since_ns, std::int64_t deadline_ns, int peer, const std::string& where);
  // Fails the group if a member died, without throwing; `peer`: the awaited rank (-1: any).
  void check_for_dead(int peer, Situation& situation);
  // Why `peer` (-1: any) has not come, as far as it can be seen from here.
  std::optional<FirstCause> cause_of_delay(int peer) const;
  // For a rank that makes no more calls in the group: its reason, if it has one, is that of its end from here on. Fails
  // the group if a member died or left by an error, without throwing.
  void fail_if_bereft(Situation& situation);
  // Fails the group because `rank` has left, or (-1) every other rank.
  void report_departure(int rank, const std::string& where);

  // This rank's waits for a peer of more than 2 ms: how many, and how long together. Of this process's threads.
  struct Waited {
    std::atomic<std::int64_t> waits = 0, ns = 0;
  };
  const Waited& waited(int peer) const { return waited_[peer]; }

  std::atomic<bool> stopping = false;  // the endpoint is being given up: waits end

 private:
  // One wait: what the steps in waiting.h are made of.
  class Wait {
   public:
    Wait(Endpoint& endpoint, int peer, Situation& situation, Hooks& hooks, Patience patience)
        : endpoint_(endpoint),
          peer_(peer),
          situation_(situation),
          hooks_(hooks),
          patience_(patience),
          helps_at_once_(situation.helps_at_once()) {}

    // Waits slowly.
    template <class Asked>
    [[gnu::cold, gnu::noinline]] static void out(const Asked& question, Wait& wait) {
      wait.begin_slowly();
      struct AtEnd {
        ~AtEnd() { wait.end_slowly(); }
        Wait& wait;
      } at_end{wait};
      wait_slowly(question, wait);
    }

    // A question to the network takes as long as some dozens to memory.
    int spins() const {
      auto spins = endpoint_.spins_.load(std::memory_order_relaxed);
      return endpoint_.relay_ ? spins / network_questions : spins;
    }
    void pause() {
      ringtree::pause();
      if (helps_at_once_) situation_.help();
    }
    void begin_slowly();
    void end_slowly() {
      endpoint_.neighbours_.came(questions_);
      if (is_long_) end_long();
    }
    // Lets others have the core, and learns from how long that takes whether it is worth to spin.
    void yield();
    bool work();
    bool tired() const;
    template <class Asked>
    void sleep(const Asked& question) {
      if (endpoint_.relay_) endpoint_.relay_->rest();
      endpoint_.doorbell(endpoint_.rank_).sleep(question, [&] { return situation_.help(); }, sleep_ns);
    }
    template <class Asked>
    void check(const Asked& question) {
      if (check_often()) check_closely(AnyQuestion(question));
    }

   private:
    static constexpr int network_questions = 16;
    static constexpr std::int64_t sleep_ns = 1'000'000;  // the longest that a missed ring costs

    // Throws where the group failed or is being closed; whether it is time to look for more.
    bool check_often();
    void let_go();
    void begin_clock();
    void check_closely(AnyQuestion question);
    void write_down();
    void warn();
    void end_long();
    [[noreturn]] void give_up();

    Endpoint& endpoint_;
    int peer_;
    Situation& situation_;
    Hooks& hooks_;
    Patience patience_;
    bool helps_at_once_;
    bool let_go_ = false, gave_up_ = false;
    int questions_ = 0;  // for which the core was kept
    std::int64_t now_ns_ = 0, idle_since_ns_ = 0, next_check_ns_ = 0, deadline_ns_ = 0, hold_until_ns_ = 0;
    // From begin_slowly() on: whether it was checked; when its time limit and it itself began; when to write it down
    // and to warn (0: not, or no more); where it is written down.
    bool is_long_;
    std::int64_t begun_ns_, started_ns_, write_down_ns_, warn_ns_;
    int written_down_;
  };

  Doorbell<Sync> doorbell(int rank) { return Doorbell<Sync>(segment_.member(rank).doorbell); }
  // Whether one of `ranks` died; fails the group then.
  template <class Ranks>
  bool found_dead(const Ranks& ranks, int peer, Situation& situation);
  std::optional<FirstCause> first_cause_of_leaving() const;

  Segment& segment_;
  Relay* relay_ = nullptr;
  int rank_;
  Options options_;
  std::atomic<double> timeout_s_;  // of waits that begin; any thread sets it
  Health health_;
  std::atomic<int> spins_;
  HomeCore home_core_;
  Neighbours neighbours_;
  std::vector<Waited> waited_;
};

}  // namespace ringtree
