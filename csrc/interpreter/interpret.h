// Runs plans: one rank's end of all its lanes, its slots and its registers.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "interpreter/prepared_program.h"
#include "interpreter/received.h"
#include "interpreter/recorder.h"
#include "lanes/outbox.h"
#include "memory/peer_memory.h"
#include "waits/wait.h"

namespace ringtree {

// Memory that every rank has mapped: what lies there need not be staged.
struct Region {
  std::byte* base;
  std::size_t nbytes;
};

class Interpreter : Situation {
 public:
  // `cache_bytes`: outputs of calls that touch more than these go past the caches. `single_copy_bytes`: see PeerMemory.
  Interpreter(Endpoint& endpoint, std::size_t cache_bytes, std::size_t single_copy_bytes);

  // One collective call. Throws Error (the group is poisoned then), or Interrupted (the caller poisons it).
  void run(const std::shared_ptr<PreparedProgram>& plan, std::uint64_t call, std::byte* input, std::byte* output,
           Hooks& hooks);

  // A call that a device runs: compares it with the same one of the neighbouring ranks. Throws as `run` does. Of two
  // ranks, the one that comes later finds out that they differ.
  void announce(const std::shared_ptr<PreparedProgram>& plan, std::uint64_t call);
  // Compares the last calls of all ranks, as far as they are recorded.
  void compare_calls();
  // Looks a last time, without waiting, for calls of peers that did not fit the last one here.
  void check_last_call();
  // Before that: waits, for so long at most, until the peers have begun it.
  void await_peers_in_last_call(std::int64_t ns);
  // Whether a peer has left, and not by an error of its program, without the last call that this rank made.
  bool was_missed_in_last_call() const;

  void add_region(Region region);

  // Staging slots that a call has taken and not closed: none between calls, or the engine has a fault.
  int slots_open() const { return outbox_.open(); }

  // Records events from the next call on: anew, at most `most`. Not while a call runs.
  void start_recording(std::size_t most, bool lazily);
  // No more of them from the next call on.
  void stop_recording() { recording_.store(nullptr, std::memory_order_relaxed); }
  // The last recording, nullptr where there is none.
  std::shared_ptr<const Recorder> recorder() const { return last_recorder_.get(); }
  void forget_recording() { last_recorder_.forget(); }

  std::vector<Received> received;  // from each peer; written by the running thread

 private:
  struct Message {
    const std::byte* data = nullptr;
    std::uintptr_t there = 0;  // where `data` is none: the address in the peer's process
    std::size_t nbytes = 0;
    int peer = -1;
    std::uint64_t number = 0;  // in its lane; 0: a multicast, which lies in no sender's memory
  };
  // The content of a slot register: bytes on their way out.
  struct SendDescriptor {
    const std::byte* data = nullptr;
    std::size_t nbytes = 0;
    Protocol protocol = Protocol::inlined;
    int slot = -1;    // the slot it keeps open
    int region = -1;  // where data lies in place; `anywhere`: in this process, for its bridge or for peers that read it
    alignas(cache_line) std::byte small[Descriptor::room];
  };
  static constexpr int anywhere = -2;
  static const SendDescriptor bare;  // of a message without bytes

  // Bytes that a peer reads where they lie, until it has released the message.
  struct ZeroCopySend {
    int peer;
    std::uint64_t number;
    const std::byte *begin, *end;
    bool single_copy;  // by the peer's process, and of a long one by this one (CooperativeCopy)
  };
  // A message that its sender may write a part of, into this rank's memory.
  struct Offer {
    int sender;
    std::uint64_t number;
    std::byte* to;
    std::uint32_t blocks;
    CooperativeCopy<Sync> copy;
    bool copying = false;  // by this rank, at the moment
  };
  // Memory of a peer that it has granted for the message to it of that number; the grant came with message `with`.
  struct Place {
    std::byte* at;
    std::size_t nbytes;
    int region;
    std::uint32_t number;
    std::uint64_t with;
    bool overwrites;  // the bytes of that message
  };
  struct Past {
    std::uint64_t call = 0;
    Fingerprint print;
  };

  void run_windows();
  template <bool recorded>
  void run_window(std::int64_t window);
  std::size_t move(const PreparedProgram::Instruction& i, std::int64_t window);
  bool exceeds_caches(const std::byte* input, const std::byte* output) const;
  bool send_in_place(const PreparedProgram::Instruction& i, std::int64_t window, SendDescriptor& send);
  // Whether it holds for all who are sent a lazy slot.
  template <class Holds>
  bool each_receiver(const PreparedProgram::Instruction& i, Holds holds) const {
    auto end = plan_->instructions.data() + plan_->instructions.size();
    auto signal = &i + 1;
    while (signal < end && signal->kind == Kind::release) signal++;
    for (; signal < end && signal->kind == Kind::signal && signal->reg == i.reg; signal++)
      if (!holds(signal->peer)) return false;
    return true;
  }
  bool leaves_host(const PreparedProgram::Instruction& i) const;
  void exchange_offers();
  void ring_all();
  bool read_by_peers(const PreparedProgram::Instruction& i);
  Descriptor::Location location(const std::byte* data, int region) const;
  std::byte* stage(SendDescriptor& send);
  Descriptor::Grant grant(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes) const;
  void note_grant(const Descriptor& descriptor, const Message& message);
  void forget_grants();
  bool find_places(const PreparedProgram::Instruction& i, std::size_t nbytes);
  const Place* granted_by(int peer, std::size_t nbytes, int released);
  const Place* placed_at(int peer) const;
  void reduce_into_peers(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes,
                         std::byte* slot);
  bool spreads() const;
  void close(SendDescriptor& send);
  [[gnu::cold, gnu::noinline]] void time_work(const PreparedProgram::Instruction& i, std::int64_t window,
                                              std::size_t nbytes, std::byte* slot);
  // Waits where work may be under way whose time is taken: the wait is none of it, but what the rank helps with is.
  template <class... Of>
  void await(const Question<Of...>& question, int peer) {
    auto began_ns = working_ ? thread_ns() : 0;
    endpoint_.until(question, peer, *this, *hooks_);
    if (working_) *hooks_->work_ns -= thread_ns() - began_ns;
  }
  void apply(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes, std::byte* slot);
  const std::byte* packed(const PreparedProgram::Operand& o, std::size_t nbytes);
  void write(const PreparedProgram::Instruction& i, void* const* targets, int ntargets, std::size_t count);
  bool reads_peers(const PreparedProgram::Instruction& i) const;
  void write_from_peers(const PreparedProgram::Instruction& i, void* const* targets, int ntargets, std::size_t count,
                        std::size_t done);
  void read(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes);
  bool both_ends_copy(std::uintptr_t from, const std::byte* to, std::size_t nbytes) const;
  Offer& offer(int sender, std::uint64_t number, std::byte* to, std::size_t nbytes);
  void copy_with_sender(const Message& message, std::byte* to);
  [[gnu::cold, gnu::noinline]] void offer_ahead(const PreparedProgram::Instruction& now, std::int64_t window);
  const PreparedProgram::Instruction* wait_for(const PreparedProgram::Instruction& copy,
                                               const PreparedProgram::Instruction& now) const;
  bool is_free(const std::byte* at, std::size_t nbytes, const PreparedProgram::Instruction* first,
               const PreparedProgram::Instruction* end, std::int64_t window) const;
  void await_writes(Offer& offer);
  bool take_back(int sender, std::uint64_t number);
  void await_offers();
  void withdraw_offers();
  bool write_for_receivers();
  template <bool recorded>
  void signal(const PreparedProgram::Instruction& i, std::int64_t window);
  template <bool recorded>
  std::uint64_t publish(const PreparedProgram::Instruction& i, std::size_t nbytes);
  template <bool recorded>
  void ring(int peer);
  template <bool recorded>
  void multicast(const PreparedProgram::Instruction& i);
  void fill(Descriptor& descriptor, const SendDescriptor& send, const Place* place = nullptr) const;
  std::size_t wait(const PreparedProgram::Instruction& i);
  template <bool recorded>
  void release(const PreparedProgram::Instruction& i);
  Incoming<Descriptor>& lane_of(const PreparedProgram::Instruction& i) {
    return i.multicast ? multicasts_[i.peer] : in_[i.peer];
  }
  bool sends_at_once() const;
  [[gnu::cold, gnu::noinline]] void stall();
  [[gnu::cold, gnu::noinline]] void stalled(int peer);
  std::size_t finish(std::int64_t window);
  void settle(const std::byte* begin, const std::byte* end);
  void await_completion(const ZeroCopySend& send);
  bool complete(const ZeroCopySend& send) const;
  void note_zero_copy(int peer, std::uint64_t number, const SendDescriptor& send);

  std::byte* memory(const PreparedProgram::Operand& o, std::int64_t window, std::uint32_t piece) const {
    auto at = plan_->offsets[o.first + piece] + window * plan_->window;
    return spaces_[static_cast<int>(o.space)] + at * static_cast<std::int64_t>(plan_->item);
  }
  std::size_t elements(const PreparedProgram::Instruction& i, std::int64_t window, std::uint32_t piece) const;
  std::size_t bytes(const PreparedProgram::Instruction& i, std::int64_t window) const;
  int region_of(const std::byte* begin, std::size_t nbytes) const;

  void check_silent(const PreparedProgram* earlier);
  bool never_comes(int peer) const;
  void check_came(int peer);
  void await_peers_in_last_call(bool elsewhere, std::int64_t until_ns);
  void record_call(const PreparedProgram& plan, std::uint64_t call);
  void keep(const std::shared_ptr<PreparedProgram>& plan);
  void confirm();
  void check(int peer, const Descriptor& descriptor);
  void check_unread(int peer, std::int32_t latest);
  [[noreturn]] void mismatch(int peer, std::uint64_t peer_call, const Fingerprint& theirs);
  std::uint64_t short_exchange() const override { return plan_ && plan_->short_exchange ? call_ : 0; }
  std::string where() const override;
  bool help() override;
  bool helps_at_once() const override { return endpoint_.relay() || cooperates_; }
  bool copy_for_good(int peer);
  void locate(const Descriptor& descriptor, Message& message);
  const std::byte* in_region(const Descriptor& descriptor, int peer);
  void inspect() override;
  const Past* past(std::uint64_t call) const;
  void compare_earlier(int peer, std::uint64_t call);
  void compare(int peer);

  Endpoint& endpoint_;
  OutgoingLanes out_;
  std::vector<Incoming<Descriptor>> in_;
  std::vector<Incoming<Descriptor>> multicasts_;  // of each peer
  std::vector<const std::byte*> staging_;         // of each peer's messages
  Outbox outbox_;
  bool waits_for_slot_ = false;
  std::vector<Region> regions_;
  std::map<const std::byte*, int> region_at_;  // by where they begin
  bool zero_copy_ = false;                     // whether input or output of this call lies in a region
  PeerMemory peer_memory_;
  bool single_copy_ = false;        // whether peers may read this call's arrays
  bool attached_ = false;           // whether a message of this call lies in a peer's process
  bool cooperates_ = false;         // whether this rank has sent messages in this call that both ends may copy
  std::vector<Offer> offers_;       // of such messages to this rank, at most one of a sender
  std::vector<std::byte> passing_;  // what was read of peers, on its way into a sum
  int ranks_here_ = 0;              // on this host
  std::size_t cache_bytes_;
  bool past_caches_ = false;  // whether outputs of this call that nobody reads go past the caches
  std::vector<SendDescriptor> send_descriptors_;
  std::vector<Message> messages_;
  std::vector<const void*> sources_;
  std::vector<ZeroCopySend> zero_copy_sends_;
  std::vector<std::vector<Place>> granted_;    // to this rank in this call, by each peer
  bool any_granted_ = false;                   // whether there are any
  std::vector<std::pair<int, Place>> placed_;  // where the sum that is about to be signalled lies at some of its peers
  std::vector<std::uint64_t> copied_;          // of each peer, up to which message copies were made
  std::map<std::pair<int, std::uint64_t>, std::vector<std::byte>> copies_;
  std::array<Past, 64> history_{};  // of one's own calls, by call modulo its length
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;

  const PreparedProgram* plan_ = nullptr;
  std::shared_ptr<const PreparedProgram> previous_, earlier_;  // of the last call, and the last other one before it
  Hooks* hooks_ = nullptr;
  bool working_ = false;          // whether work is under way whose time is taken
  Recorder* recorder_ = nullptr;  // of this call
  LastRecorder last_recorder_;
  std::atomic<Recorder*> recording_ = nullptr;
  std::uint64_t call_ = 0;
  std::byte* spaces_[3] = {};
};

}  // namespace ringtree
