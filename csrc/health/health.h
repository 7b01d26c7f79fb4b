// The health of a group: the members that left or died and why, the last calls of each, and the group's failure.
//
// All of it lies in the memory that the ranks of a host share. A rank of this host reports for itself, and the kernel
// reports which of their processes have ended (ProcessWatch). The server of a transport to other hosts reports for the
// ranks behind it, by the same functions.
#pragma once

#include <pthread.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "error.h"
#include "health/process_watch.h"
#include "interpreter/call.h"
#include "memory/segment.h"

namespace ringtree {

class Health {
 public:
  // Who carries a failure of this host's ranks on to other hosts.
  struct Observer {
    virtual ~Observer() = default;
    virtual void failed(Failure kind, int rank, const std::string& text) noexcept = 0;
  };

  Health(Segment& segment, int rank, InheritedLiveness inherited);

  // Reports. Each wakes those that may wait for it.
  void report_left(int rank);
  // To this rank alone: what `rank` sent to others of this host may still be on its way.
  void report_left_here(int rank);
  void report_error(int rank);  // before it leaves: it does so by an error of its program
  // It died, or nothing more can come from it. `why`: as in "closed its connection"; of each the first report counts.
  void report_lost(int rank, const std::string& why);
  void report_call(int rank, std::uint64_t call, const Fingerprint& print);
  // Fails the group for every member: the first report counts. `rank`: the rank that died, else -1. `culprit` as in
  // FirstCause, where it is not that rank.
  void report_failure(Failure kind, int rank, const std::string& text, int culprit = -1);
  // The same for a failure of another host's ranks, of which the observer knows.
  void report_foreign_failure(Failure kind, int rank, const std::string& text);
  void observe(Observer* observer) { observer_ = observer; }
  // Why a member leaves, or what it has heard of in another group; of each the first report counts.
  void report_cause(int rank, const FirstCause& cause);

  bool left(int rank) const {
    return segment_.member(rank).left.load(std::memory_order_acquire) != 0 ||
           left_here_[rank].load(std::memory_order_acquire);
  }
  bool by_error(int rank) const { return segment_.member(rank).by_error.load(std::memory_order_relaxed) != 0; }
  bool died(int rank) const;
  std::string how_died(int rank) const;  // as in "died (process 12 ended)"
  // A rank's call of that number; only the last few are kept.
  std::optional<Fingerprint> call_of(int rank, std::uint64_t call) const;
  // Whether the record has that call of a rank, or a later one in its place.
  bool is_recorded(int rank, std::uint64_t call) const;
  // The last that it has begun, as far as it is known here; 0: none. Of a rank that has left, all of them are known.
  std::uint64_t last_call(int rank) const;
  // Whether it has begun that call, as far as it is known here.
  bool has_begun(int rank, std::uint64_t call) const;
  bool failed() const { return segment_.header().poison.state.load(std::memory_order_relaxed) != 0; }
  // The failure, where it is written down.
  std::optional<Error> failure() const;
  // The same of one that another rank is just writing down.
  std::optional<Error> await_failure() const;

  // What a member has reported of a failure before it left or died.
  std::optional<FirstCause> reported_by(int rank) const;
  // Why a member left, as far as anything is known: what it reported, what this process has heard, what failed
  // meanwhile.
  std::optional<FirstCause> cause_of_leaving(int rank) const;
  // Why this rank leaves: what it has reported, or what it has raised in the last second, in any group.
  std::optional<FirstCause> why_leaving() const;
  std::optional<FirstCause> cause_of_failure() const;
  Error closed() const;        // the error of a group that is closed, and why it had failed before
  int number(int rank) const;  // in the world
  std::optional<int> rank_of(int number) const;
  // The rank of a culprit that this group misses too. None where it goes on here, in this rank's last call or a later
  // one: only another group has lost it.
  std::optional<int> missed(int culprit) const;
  int rank() const { return rank_; }
  bool stopped(int rank) const { return watch_.stopped(rank); }

  // The family, which makes this group known to the others from here until it leaves, and what it calls.
  void join_family(const std::vector<std::string>& names);
  Family& family() const { return watch_.family(); }
  void tell_cause(const FirstCause& cause) { report_cause(rank_, cause); }

  // Throws the failure itself at the first query of this rank, then that the group can no longer be used.
  [[noreturn]] void raise_failure();
  bool raised() const { return raised_.load(std::memory_order_relaxed); }
  // This process knows of the failure, which is written down, from now on: its other groups are to say so.
  void hear();
  // While it lives, the thread that made it runs an asynchronous call: a failure that this thread raises is kept until
  // a caller waits, and does not count as raised until then. One at a time.
  class Keeping {
   public:
    explicit Keeping(Health& health) : health_(health) { health_.keeper_.store(pthread_self()); }
    ~Keeping() { health_.keeper_.store({}); }
    Keeping(const Keeping&) = delete;
    Keeping& operator=(const Keeping&) = delete;

   private:
    Health& health_;
  };
  // Marks the failure of an asynchronous call as raised, to the caller that waited.
  void kept_is_raised();

  // The end of this rank's part in the group.
  void leave();
  InheritedLiveness inherited(const std::vector<int>& ranks) const { return watch_.of(ranks); }
  std::shared_ptr<Liveness> liveness() const { return watch_.liveness(); }
  std::shared_ptr<LongWaits> waits() const { return watch_.waits(); }

 private:
  Member& member(int rank) const { return segment_.member(rank); }
  void wake_others();
  void raises();  // the cause of the failure, for this process's other groups
  bool write_failure(Failure kind, int rank, const std::string& text, int culprit);

  Segment& segment_;
  int rank_;
  ProcessWatch watch_;
  std::atomic<bool> raised_ = false, heard_ = false;
  std::atomic<pthread_t> keeper_{};
  const std::int64_t made_ns_;
  std::vector<std::atomic<bool>> left_here_;
  Observer* observer_ = nullptr;
};

}  // namespace ringtree
