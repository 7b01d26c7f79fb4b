// A rank's membership of a group: the engine as its users see it.
#pragma once

#include <pthread.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bridge/bridge.h"
#include "group/signals.h"
#include "group/ticket_lock.h"
#include "group/worker.h"
#include "health/agreement.h"
#include "interpreter/interpret.h"
#include "kernels/copies.h"
#include "messages/exchange.h"

namespace ringtree {

class Group {
 public:
  struct Options {
    int slots;
    std::size_t slot_bytes;
    bool threads = false;  // the ranks are threads of one process: no death watch
    Endpoint::Options endpoint;
    std::optional<InheritedLiveness>
        inherited{};  // the members, in a group that is made from another; else this is a world of its own
    std::optional<Network> network{};          // where ranks are on several hosts
    std::vector<int> nodes{};                  // each rank's NUMA node, as in Parts
    std::vector<ProcessIdentity> processes{};  // of a world, by rank; none: unknown
    std::size_t cache_bytes = last_cache_bytes();
    std::size_t single_copy_bytes = 0;  // of messages whose bytes peers read in this process; 0: none
  };

  // An endpoint in the group behind a memfd. A world keeps the descriptor, for its lock and its waits.
  Group(FileDescriptor file, int rank, int ranks, Options options);
  // An endpoint in memory that the caller keeps (zeroed at first, aligned to a cache line): ranks are threads.
  Group(void* memory, int rank, int ranks, Options options);
  ~Group();

  // The plan lives as long as its holders, and its calls that are queued or running.
  std::shared_ptr<PreparedProgram> prepare(const Encoded& program, const Binding& binding);
  void run(const std::shared_ptr<PreparedProgram>& plan, std::byte* input, std::byte* output, Hooks& hooks);

  // `time`: takes the time of the call's work once that has ended well.
  std::uint64_t start(std::shared_ptr<PreparedProgram> plan, std::byte* input, std::byte* output,
                      std::shared_ptr<WorkTime> time = nullptr);
  bool done(std::uint64_t ticket) const { return worker_->done(ticket); }
  // Whether a call that is done ended with an error, which `wait` throws.
  bool has_failed(std::uint64_t ticket) { return worker_->has_failed(ticket); }
  bool wait(std::uint64_t ticket, double timeout_s, Hooks& hooks);

  // A call whose program runs on a device: a thread enters it, and announces it when it is next; ranks whose calls
  // differ throw before they begin. The program of `plan` is not run here. Announced by one thread at a time.
  void enter_call(const PreparedProgram& plan);
  void announce(const std::shared_ptr<PreparedProgram>& plan);
  void leave_call();
  // How such a call failed, for all members; `check_liveness` throws it. `ranks`: those that were waited for. A
  // mismatch is named after the ranks' last calls where these are known, and else by the text.
  void report_interrupt(const PreparedProgram& plan);
  void report_timeout(const std::string& text, const std::vector<int>& ranks);
  void report_mismatch(const std::string& text);
  // Whether `check_liveness` would throw, which it still does afterwards. For one thread that watches.
  bool is_lost(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent);

  void exchange(std::span<Operation> operations, double timeout_s, Hooks& hooks);
  void exchange(std::span<Operation> operations, Hooks& hooks) { exchange(operations, endpoint_->timeout_s(), hooks); }
  std::uint64_t post(Operation operation);
  std::optional<Envelope> probe(int source, int tag, double timeout_s, Hooks& hooks, bool may_have_left = false);
  // For what else can be done with messages. Throws where the group cannot be used.
  Exchange& messages();
  Signals& signals();

  // Maps `fd` for in-place reading; all ranks in the same order. Returns where it begins. The first `reserved` of the
  // bytes exist, the rest is prefaulted before it is written. Of a window, this rank's share is reserved.
  std::byte* add_region(int fd, std::size_t nbytes, std::size_t reserved, Hooks& hooks);
  std::byte* add_shares(int fd, std::size_t nbytes, Hooks& hooks);
  // The same with memory that is mapped already.
  void add_region(Region region, Hooks& hooks);

  // A window is a region of which every rank has a share of `nbytes`, one behind the other. Its number, and the address
  // of bytes of a rank's share, where that is on this host; throws std::invalid_argument outside the share. The caller
  // serializes these calls.
  int add_window(std::byte* base, std::size_t nbytes);
  std::byte* in_window(int window, int rank, std::size_t offset, std::size_t nbytes) const;
  // Copies between memory here and a rank's share of a window, wherever that is.
  void put(int window, std::size_t offset, int peer, std::span<const std::byte> source, Hooks& hooks);
  void get(int window, std::size_t offset, int peer, std::span<std::byte> target, Hooks& hooks);

  // The members with these ranks, for a group made of them.
  InheritedLiveness inherited(const std::vector<int>& ranks) const;

  // Throws if the group failed, or one of these members died, for a wait for them in `what`. `absent`: the positions
  // in that list of members that have not come yet: they must not have left either.
  void check_liveness(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent);
  // Writes down a wait elsewhere, in `what`, for a member, so that others who wait for this rank find it; its place,
  // for `end_wait`, -1 where there is none.
  int begin_wait(const std::string& what, int rank, double timeout_s);
  void end_wait(int place, bool gave_up) const;
  // This process gives up a wait elsewhere for members with these ranks, by an error of this text: the text with the
  // cause, where it can be seen. Where groups are closed in the next second, that is why.
  std::string give_up(const std::string& text, const std::vector<int>& ranks) const;
  // Fails the group for those who still wait in it, if one of its ranks died or left by an error. `what`: as above.
  void fail_if_bereft(const std::string& what);
  void poison(const std::string& message);
  // Peers that find out that this rank has left read why, unless it has reported something else before.
  void tell_cause(const std::string& text);
  // The thread that made the last call or exchanged the last message here, as pthread_self(); 0: none did.
  std::uint64_t caller() const { return caller_.load(std::memory_order_relaxed); }
  // How the group failed, in words; "" where it has not. At any time.
  std::string failure() const {
    auto found = endpoint_->health().failure();
    return found ? found->what() : "";
  }
  // What its survivors agree on; also of a group that has failed.
  Agreement agreement() { return {*segment_, rank()}; }
  void set_timeout(double seconds) { endpoint_->set_timeout(seconds); }
  // Leaves the group; threads of this process that are in a call find it closed. Throws a mismatch found out only now.
  void close();
  bool closed() const { return !open_; }
  // Whether this thread is in a call, and this is a signal's handler within it, for which neither the group's end nor
  // another call can wait.
  bool is_within_call() const;
  // Whether it is closed, and no call of it runs any more.
  bool over() const { return over_; }

  // A memo of values that the members compute alike. Also of a group that has failed.
  Memo::Found known(std::uint64_t key) {
    auto prefault = [this](Memo::Entry& entry) {
      segment_->existing(reinterpret_cast<std::byte*>(&entry), sizeof entry);
    };
    return segment_->memo().find(key, rank(), prefault);
  }
  // The member that has claimed a key and not published yet, where it has left; -1: there is none.
  int missing_claimant(std::uint64_t key) {
    auto rank = segment_->memo().claimant(key);
    // What it published before it left counts: so that is asked again.
    return rank >= 0 && endpoint_->health().left(rank) ? segment_->memo().claimant(key) : -1;
  }
  bool publish(std::uint64_t key, std::span<const std::byte> value) { return segment_->memo().publish(key, value); }

  // Bytes and messages received from each peer in calls and messages; nothing from this rank itself.
  struct Counted {
    std::int64_t bytes, messages;
  };
  std::vector<Counted> received() const;
  void reset_received();
  // The state of each member as this rank knows it, and this rank's waits for it of more than 2 ms.
  struct Peer {
    const char* state;
    std::int64_t waits;
    double waited_s;
  };
  std::vector<Peer> peers();
  int slots_open() const { return interpreter_->slots_open(); }

  // Records this rank's calls and messages from the next ones on, anew, at most `most` events of each; 0 ends it. The
  // recording can be read at any time; also when the group has failed, or is closed.
  void record(std::size_t most, Hooks& hooks);
  std::shared_ptr<const Recorder> recorder() const { return interpreter_->recorder(); }
  std::shared_ptr<const Recorder> message_recorder() const { return exchange_->recorder(); }
  const std::vector<std::string>& names() const { return endpoint_->names(); }
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  int rank() const { return endpoint_->rank(); }
  int ranks() const { return ranks_; }
  bool threads() const { return threads_; }
  bool over_hosts() const { return bridge_ != nullptr; }

 private:
  void check_rank(int rank) const;
  void check_peer(const Operation& operation) const;
  void sit(int rank, Options& options, InheritedLiveness inherited);
  void check_usable() const;
  Mapping& map(int fd, std::size_t nbytes, std::size_t reserved, Hooks& hooks);
  void add_region(Region region);  // by who holds the turn
  void note_caller() { caller_.store(static_cast<std::uint64_t>(pthread_self()), std::memory_order_relaxed); }
  bool at_home() const;  // and not in a process that was forked from the one that joined
  void check_home() const;
  void execute(const std::shared_ptr<PreparedProgram>& plan, std::byte* input, std::byte* output, Hooks& hooks);
  void await(const TicketLock::Ticket& ticket, Hooks& hooks, const PreparedProgram* alone = nullptr);
  void check_alone(const PreparedProgram& plan);
  void check_outside(const std::string& what) const;
  void check_last_call();

  int ranks_;
  bool threads_;
  bool lazily_ = false;  // made from another, of which there may be thousands; or most ranks are elsewhere
  std::vector<int> nodes_;
  std::atomic<bool> open_ = true, over_ = false, leaves_by_error_ = false;
  std::uint64_t home_ = 0;  // the process that this endpoint is in
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Bridge> bridge_;  // nullptr where all ranks are on this host
  std::unique_ptr<Interpreter> interpreter_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Signals> signals_;
  std::deque<Mapping> mappings_;  // stay where they are as others come; written by who holds the turn
  struct Window {
    std::byte* base;
    std::size_t nbytes;  // a rank's share
  };
  mutable std::mutex windows_lock_;  // a long put or get is made while others make windows
  std::vector<Window> windows_;
  TicketLock lock_;      // one call at a time
  std::mutex arriving_;  // asynchronous calls queue in the order of their tickets
  std::atomic<std::uint64_t> calls_ = 0, caller_ = 0, in_call_ = 0;  // the last: the thread that is in a call
  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

}  // namespace ringtree
