// The memory a group shares: what lies where in it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interpreter/call.h"
#include "lanes/cooperative_copy.h"
#include "lanes/lane.h"
#include "machine.h"
#include "memory/mapping.h"
#include "memory/memo.h"

namespace ringtree {

using Sync = RealSync;
using Counter = Sync::atomic<std::uint64_t>;

// The way of a message's payload to the receiver.
enum class Protocol : std::uint32_t { inlined, copy, zero_copy, single_copy };

// One message of a collective. The first line holds all of a short message, so that 32 bytes cost one cache line.
struct alignas(cache_line) Descriptor {
  static constexpr std::size_t room = 224;
  // Where the receiver may write its own message of that number, which has as many bytes, instead of staging it
  // (interpreter/placing.cc).
  struct Grant {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t number;  // modulo 2^32; 0: nothing is granted
  };
  struct Location {
    static constexpr std::uint64_t memory = UINT64_MAX;  // of the sender's process

    std::uint64_t base;    // of bytes in the sender's staging; a region; `memory`
    std::uint64_t offset;  // in a region; an address
    Grant grant{};
  };

  Counter number;
  Fingerprint print;
  std::uint32_t call;  // the sender's call, modulo 2^32
  std::uint32_t size;  // Protocol in the upper 2 bits, payload bytes in the rest
  union {
    std::byte payload[room];
    Location location;
  };

  Protocol protocol() const { return static_cast<Protocol>(size >> 30); }
  std::size_t nbytes() const { return size & ((1u << 30) - 1); }
  void set_protocol(Protocol protocol, std::size_t nbytes) {
    size = static_cast<std::uint32_t>(protocol) << 30 | static_cast<std::uint32_t>(nbytes);
  }
};
static_assert(sizeof(Descriptor) == 256 && offsetof(Descriptor, payload) == 32);
static_assert(offsetof(Descriptor, payload) + sizeof(Descriptor::Location) == cache_line);

// One piece of a point-to-point message; its bytes lie in `payload` or in the piece's own staging.
struct alignas(cache_line) Piece {
  static constexpr std::size_t room = 24;

  Counter number;
  std::uint64_t total;  // bytes of the whole message
  std::int32_t tag;
  std::int16_t dtype;
  std::uint16_t first;  // 1: a message begins here; 2: one whose sender waits for its receive
  std::uint32_t nbytes;
  std::uint32_t unused;
  std::byte payload[room];
};
static_assert(sizeof(Piece) == 64);

// Why the group failed. Written once, by the rank that sets `state` from 0 to 1; 2: complete.
struct alignas(cache_line) Poison {
  std::atomic<std::uint32_t> state;
  std::uint32_t kind;
  std::int32_t rank;
  std::int32_t culprit;  // its number in the world; -1: nobody in particular
  std::int64_t since_ns;
  char text[2024];
};

// What a member's process heard of first in any of its groups since this one was made, or why it leaves. Written once,
// by that process, which sets `state` from 0 to 1; 2: complete.
struct alignas(cache_line) ReportedCause {
  std::atomic<std::uint32_t> state;
  std::int32_t culprit;  // as in Poison
  std::int64_t since_ns;
  char text[368];
};
static_assert(sizeof(Poison) == 2048 && sizeof(ReportedCause) == 384);

// The record of a rank's last calls: a sequence lock each, read by others only when a wait is slow.
struct CallRecord {
  std::atomic<std::uint64_t> version;  // 2 * call, odd while it is being written
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> code_digest;
};

struct Member {
  // A rank is ahead of one that waits in vain by as many calls as it has staging slots: fewer than these, where ranks
  // are fewer.
  static constexpr std::size_t remembered = 64;

  alignas(cache_line) std::atomic<std::uint32_t> doorbell;  // 1 while the rank sleeps, or is about to
  std::atomic<std::uint32_t> stuck;                         // 1 while it waits to overwrite what others read in place
  std::atomic<std::uint32_t> progress_doorbell;             // its progress thread's doorbell: 1 while armed
  std::atomic<std::uint32_t> has_progress_thread;
  std::atomic<std::uint32_t> offers;  // that its peers have made to it (PeerMemory)
  alignas(cache_line) std::atomic<std::uint32_t> attached;
  std::atomic<std::uint32_t> left;
  std::atomic<std::uint32_t> lost;      // known to be dead, by other means than its process: 2 once `why` is written
  std::atomic<std::uint32_t> by_error;  // whether it leaves by an error of its program
  std::int32_t process;
  std::uint64_t process_start;  // as in /proc/pid/stat, to know a reused pid
  std::uint64_t process_space;  // inode of the pid namespace
  std::uint64_t word;           // a random one of its process (PeerMemory), and its address there
  std::uintptr_t word_at;
  alignas(cache_line) std::array<CallRecord, remembered> calls;
  ReportedCause cause;
  char why[96];  // it is lost, as in "closed its connection"
};

// A survivor's part in an Agreement.
struct alignas(cache_line) Ballot {
  std::atomic<std::uint64_t> arrived;  // 2 * turn, and 1 where it is ready
  std::atomic<std::uint32_t> shunned;  // set by others
};
using ProposalWord = std::atomic<std::uint64_t>;  // 64 ranks, a bit each

struct Header {
  alignas(cache_line) std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> shape;  // of the first to attach; the others must agree
  Poison poison;
};

// What one rank lets another know in a byte of their own: that a lane or a pipe exists, before its first message; how
// far they are in finding out whether the sender's memory can be read (PeerMemory). A rank's lane to itself is its
// multicast.
enum class PairFact { lane_opened, pipe_opened, memory_attached };
inline constexpr std::size_t pair_facts = 3;
using Fact = std::atomic<std::uint8_t>;

// The sender's end of a lane or a pipe, whose memory may not exist yet.
template <class Entry>
struct Outgoing : Sender<Sync, Entry> {
  Outgoing(Counter& taken, Entry* entries, std::uint64_t depth) : Sender<Sync, Entry>(taken, entries, depth) {}
  bool opened = false;
};

// The sender's end of a rank's multicast.
struct OutgoingToAll : Sender<Sync, Descriptor, GivenBackByAll<Sync>> {
  OutgoingToAll(GivenBackByAll<Sync> back, Descriptor* entries, std::uint64_t depth, int rank)
      : Sender(std::move(back), entries, depth), rank_(rank) {}
  bool opened = false;

  // The first peer that has not given back message `number`; -1 where all have.
  int holder(std::uint64_t number) const {
    auto place = static_cast<int>(back().behind(number));
    if (place == static_cast<int>(back().taken.size())) return -1;
    return place < rank_ ? place : place + 1;  // there is no count of its own
  }

 private:
  int rank_;
};

// The receiver's end: there is no message, and nothing is read, before the sender has opened it.
template <class Entry>
class Incoming : public Receiver<Sync, Entry> {
 public:
  Incoming(Counter& taken, Entry* entries, std::uint64_t depth, const Fact& opened)
      : Receiver<Sync, Entry>(taken, entries, depth), opened_(&opened) {}
  bool ready() const { return exists() && Receiver<Sync, Entry>::ready(); }
  bool arrived(std::uint64_t number) const { return exists() && Receiver<Sync, Entry>::arrived(number); }

 private:
  bool exists() const { return exists_ || (exists_ = opened_->load(std::memory_order_acquire) != 0); }

  const Fact* opened_;
  mutable bool exists_ = false;
};

// Sizes and offsets, from (ranks, slots, slot_bytes) alone.
struct Layout {
  Layout(int ranks, int slots, std::size_t slot_bytes);

  int ranks, slots;
  std::size_t slot_bytes;
  std::size_t outbox_bytes;    // of a rank's slots, with room to spread short messages over (see Outbox)
  std::size_t overflow_bytes;  // a slot's, for a message that peers would read in the sender's memory, and cannot
  std::uint64_t depth;   // descriptors a lane holds: `slots` where memory allows, so that slots bound what is under way
  std::uint64_t pieces;  // pieces a point-to-point lane holds: a link is idle while all of them wait for the receiver
  std::size_t piece_bytes;
  // Offsets, and bytes of one. A pipe has a head, and its staging lies elsewhere. There are n^2 of what begins with
  // `lanes`, and each exists from its first use on; so do multicasts, of which each rank sends one.
  std::size_t members, facts, outboxes, lanes, lane_bytes, signals, heads, head_bytes, memo, ballots, proposals,
      proposal_bytes, pipes, pipe_bytes, multicasts, multicast_bytes, overflows, waits, total;

  std::uint64_t shape() const;
  // Throws std::invalid_argument for what is no layout's.
  static Layout of_shape(std::uint64_t shape);
  // The bytes that exist before the first message: staging slots, too, each rank's by itself, or (`lazily`, or where no
  // peer reads them) not even those; all of it where the kernel cannot reserve memory later.
  std::size_t reserved(bool lazily) const {
    return !Mapping::can_prefault() ? total : lazily || ranks == 1 ? outboxes : lanes;
  }
};

// Tells the group that this rank cannot join it, by the part of the memory that comes first: the others need not wait.
void report_failed_join(int fd, const Layout& layout, int rank, int number, const std::string& text);

// A mapping of the segment. Ranks that are threads may share one.
class Segment {
 public:
  // "ringtr" and a version, which changes with Header, Member and WaitRecord: other processes read them (see observe).
  static constexpr std::uint64_t magic = 0x72696e6774720003;
  static_assert(sizeof(Header) == 2112 && sizeof(Member) == 2176);

  // Maps the memfd for `rank`. `lazily`: staging slots, too, are reserved when they are first used. `nodes` as in
  // Parts.
  Segment(int fd, const Layout& layout, int rank, bool lazily, const std::vector<int>& nodes = {});
  // Uses memory that is there already (zeroed, and kept by the caller).
  Segment(void* memory, const Layout& layout);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const Layout& layout() const { return layout_; }
  // The kernel's number of the memory, the same for all ranks of the host; 0: unknown.
  std::uint64_t number() const { return number_; }
  Header& header() { return *reinterpret_cast<Header*>(base_); }
  Member& member(int rank) { return *reinterpret_cast<Member*>(base_ + layout_.members + rank * sizeof(Member)); }
  std::byte* outbox(int rank) { return base_ + layout_.outboxes + rank * layout_.outbox_bytes; }

  Outgoing<Descriptor> lane_out(int from, int to) {
    return {taken(lane(from, to)), entries<Descriptor>(lane(from, to)), layout_.depth};
  }
  // Beside a lane's count of messages given back: how many the receiver has made copies of.
  Counter& lane_copied(int from, int to) { return reinterpret_cast<Counter*>(lane(from, to))[1]; }
  // And behind that: the message of the lane that both ends copy.
  CooperativeCopy<Sync> cooperative_copy(int from, int to) {
    using Words = CooperativeCopy<Sync>::Words;
    static_assert(2 * sizeof(Counter) + sizeof(Words) <= cache_line);
    return CooperativeCopy<Sync>(*reinterpret_cast<Words*>(lane(from, to) + 2 * sizeof(Counter)));
  }
  Incoming<Descriptor> lane_in(int from, int to) {
    return {taken(lane(from, to)), entries<Descriptor>(lane(from, to)), layout_.depth,
            fact(PairFact::lane_opened, from, to)};
  }
  // Where a slot's message goes that is longer than the slot.
  std::byte* overflow(int rank, int slot) {
    return base_ + layout_.overflows + (std::size_t(rank) * layout_.slots + slot) * layout_.overflow_bytes;
  }
  // Makes a lane of this rank's exist, before its first message. Throws std::system_error where there is no room.
  void open(Outgoing<Descriptor>& out, int from, int to) {
    open(out.opened, PairFact::lane_opened, lane(from, to), layout_.lane_bytes, from, to);
  }
  OutgoingToAll multicast_out(int from);
  Incoming<Descriptor> multicast_in(int from, int to) {
    return {multicast_taken(from, to), reinterpret_cast<Descriptor*>(multicast(from)), layout_.depth,
            fact(PairFact::lane_opened, from, from)};
  }
  void open(OutgoingToAll& out, int from) {
    open(out.opened, PairFact::lane_opened, multicast(from), layout_.multicast_bytes, from, from);
  }
  Fact& attached(int from, int to) { return fact(PairFact::memory_attached, from, to); }
  // A line of counters that only the sender adds to.
  Counter* signals(int from, int to) {
    auto at = base_ + layout_.signals + pair(from, to) * cache_line;
    return reinterpret_cast<Counter*>(existing(at, cache_line));
  }
  Outgoing<Piece> pipe_out(int from, int to) {
    return {taken(pipe(from, to)), entries<Piece>(pipe(from, to)), layout_.pieces};
  }
  Incoming<Piece> pipe_in(int from, int to) {
    return {taken(pipe(from, to)), entries<Piece>(pipe(from, to)), layout_.pieces,
            fact(PairFact::pipe_opened, from, to)};
  }
  void open(Outgoing<Piece>& out, int from, int to) {
    open(out.opened, PairFact::pipe_opened, pipe(from, to), layout_.head_bytes, from, to);
  }
  std::byte* piece_staging(int from, int to, std::uint64_t piece, std::size_t nbytes) {
    auto at = base_ + layout_.pipes + pair(from, to) * layout_.pipe_bytes + piece * layout_.piece_bytes;
    return from == rank_ ? existing(at, nbytes) : at;
  }
  // What the survivors of the group agree on (Agreement): the last decision, and what each rank writes for it.
  std::byte* ballots() { return base_ + layout_.ballots; }
  Counter& decided() { return *reinterpret_cast<Counter*>(ballots()); }
  Ballot& ballot(int rank) { return reinterpret_cast<Ballot*>(ballots() + cache_line)[rank]; }
  ProposalWord* proposal(int rank, std::size_t odd) {
    return reinterpret_cast<ProposalWord*>(base_ + layout_.proposals + (2 * rank + odd) * layout_.proposal_bytes);
  }
  Memo memo() { return Memo(reinterpret_cast<Memo::Entry*>(base_ + layout_.memo)); }
  // These bytes of this rank's, which exist from now on. Throws std::system_error where there is no room.
  std::byte* existing(std::byte* at, std::size_t nbytes) {
    if (at >= lazy_) prefault(at, nbytes);
    return at;
  }

 private:
  void check_shape();
  void prefault(std::byte* at, std::size_t nbytes);
  void open(bool& done, PairFact kind, std::byte* at, std::size_t nbytes, int from, int to);
  std::size_t pair(int from, int to) const { return std::size_t(from) * layout_.ranks + to; }
  std::byte* lane(int from, int to) { return base_ + layout_.lanes + pair(from, to) * layout_.lane_bytes; }
  std::byte* multicast(int from) { return base_ + layout_.multicasts + from * layout_.multicast_bytes; }
  Counter& multicast_taken(int from, int to) {
    return taken(multicast(from) + layout_.depth * sizeof(Descriptor) + to * cache_line);
  }
  std::byte* pipe(int from, int to) { return base_ + layout_.heads + pair(from, to) * layout_.head_bytes; }
  static Counter& taken(std::byte* end) { return *reinterpret_cast<Counter*>(end); }
  template <class Entry>
  static Entry* entries(std::byte* end) {
    return reinterpret_cast<Entry*>(end + cache_line);
  }
  // A receiver's lie side by side, for it looks at all of them.
  Fact& fact(PairFact kind, int from, int to) {
    auto pairs = std::size_t(layout_.ranks) * layout_.ranks;
    return reinterpret_cast<Fact*>(base_ + layout_.facts)[static_cast<std::size_t>(kind) * pairs + pair(to, from)];
  }

  Layout layout_;
  std::uint64_t number_ = 0;
  std::optional<Mapping> mapping_;
  std::byte* base_;
  std::byte* lazy_;  // what lies from here on is prefaulted when it is first used
  int rank_ = -1;
  // The pages from `lazy_` on that this rank has prefaulted; any of its threads sets them.
  std::vector<std::uint8_t> prefaulted_;
};

}  // namespace ringtree
