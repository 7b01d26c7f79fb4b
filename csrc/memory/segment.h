// The memory a group shares: what lies where in it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interpreter/call.h"
#include "lanes/lane.h"
#include "machine.h"
#include "memory/mapping.h"

namespace ringtree {

using Sync = RealSync;
using Counter = Sync::atomic<std::uint64_t>;

// How a message's payload reaches the receiver.
enum class Carrier : std::uint32_t { within, slot, region };

// One message of a collective. The first line holds all of a short message, so that 32 bytes cost one cache line.
struct alignas(cache_line) Notice {
  static constexpr std::size_t room = 224;
  struct Place {
    std::uint64_t base;    // slot or region
    std::uint64_t offset;  // in a region
  };

  Counter number;
  Fingerprint print;
  std::uint32_t call;  // the sender's call, modulo 2^32
  std::uint32_t size;  // Carrier in the upper 2 bits, payload bytes in the rest
  union {
    std::byte payload[room];
    Place place;
  };

  Carrier carrier() const { return static_cast<Carrier>(size >> 30); }
  std::size_t nbytes() const { return size & ((1u << 30) - 1); }
  void carries(Carrier carrier, std::size_t nbytes) {
    size = static_cast<std::uint32_t>(carrier) << 30 | static_cast<std::uint32_t>(nbytes);
  }
};
static_assert(sizeof(Notice) == 256 && offsetof(Notice, payload) == 32);

// One piece of a point-to-point message; its bytes lie in `payload` or in the piece's own staging.
struct alignas(cache_line) Piece {
  static constexpr std::size_t room = 24;

  Counter number;
  std::uint64_t total;  // bytes of the whole message
  std::int32_t tag;
  std::int16_t dtype;
  std::uint16_t first;  // whether a message begins here
  std::uint32_t nbytes;
  std::uint32_t unused;
  std::byte payload[room];
};
static_assert(sizeof(Piece) == 64);

// Why the group failed. Written once, by whoever sets `state` from 0 to 1; 2 says it is complete.
struct alignas(cache_line) Poison {
  std::atomic<std::uint32_t> state;
  std::uint32_t kind;
  std::int32_t rank;
  char text[2036];
};

// What a rank's last calls were: a sequence lock each, read by others only when a wait is slow.
struct CallRecord {
  std::atomic<std::uint64_t> version;  // 2 * call, odd while it is being written
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> code_digest;
};

struct Member {
  static constexpr std::size_t remembered = 8;

  alignas(cache_line) std::atomic<std::uint32_t> bell;  // 1 while the rank sleeps, or is about to
  std::atomic<std::uint32_t> stuck;                     // 1 while it waits to overwrite what others read in place
  std::atomic<std::uint32_t> courier;                   // its courier's bell: 1 while armed
  std::atomic<std::uint32_t> has_courier;
  alignas(cache_line) std::atomic<std::uint32_t> attached;
  std::atomic<std::uint32_t> left;
  std::int32_t process;
  std::uint64_t process_start;  // as in /proc/pid/stat, to know a reused pid
  std::uint64_t process_space;  // inode of the pid namespace
  alignas(cache_line) std::array<CallRecord, remembered> calls;
};

struct Header {
  alignas(cache_line) std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> shape;  // of the first to attach; the others must agree
  Poison poison;
};

// Sizes and offsets, from (ranks, slots, slot_bytes) alone.
struct Layout {
  Layout(int ranks, int slots, std::size_t slot_bytes);

  int ranks, slots;
  std::size_t slot_bytes;
  std::uint64_t depth;       // notices a lane holds: `slots` where memory allows, so that slots bound what is under way
  std::uint64_t pieces = 4;  // pieces a point-to-point lane holds
  std::size_t piece_bytes;
  // Offsets, and bytes of one. A pipe has a head, and its staging lies elsewhere: what begins with `pipes` is touched
  // by nobody before its sender has written there.
  std::size_t members, lanes, lane_bytes, signals, heads, head_bytes, pipes, pipe_bytes, outboxes, total;

  std::uint64_t shape() const;
  // What a group that is made in a frugal way reserves at first: all of it where the kernel knows no other way.
  std::size_t frugal() const { return Mapping::can_bring() ? pipes : total; }
};

// A mapping of the segment. Ranks that are threads may share one.
class Segment {
 public:
  // Maps the memfd for `rank`. `frugal`: staging is reserved when it is first used.
  Segment(int fd, const Layout& layout, int rank, bool frugal);
  // Uses memory that is there already (zeroed, and kept by the caller).
  Segment(void* memory, const Layout& layout);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const Layout& layout() const { return layout_; }
  Header& header() { return *reinterpret_cast<Header*>(base_); }
  Member& member(int rank) { return *reinterpret_cast<Member*>(base_ + layout_.members + rank * sizeof(Member)); }
  std::byte* outbox(int rank) { return base_ + layout_.outboxes + rank * layout_.slots * layout_.slot_bytes; }

  Sender<Sync, Notice> lane_out(int from, int to) { return end<Sender<Sync, Notice>, Notice>(lane(from, to)); }
  // Beside a lane's count of messages given back: how many the receiver has made copies of.
  Counter& lane_copied(int from, int to) { return reinterpret_cast<Counter*>(lane(from, to))[1]; }
  Receiver<Sync, Notice> lane_in(int from, int to) { return end<Receiver<Sync, Notice>, Notice>(lane(from, to)); }
  // A line of counters that only the sender adds to.
  Counter* signals(int from, int to) {
    auto pair = std::size_t(from) * layout_.ranks + to;
    return reinterpret_cast<Counter*>(base_ + layout_.signals + pair * cache_line);
  }
  Sender<Sync, Piece> pipe_out(int from, int to) { return end<Sender<Sync, Piece>, Piece>(pipe(from, to)); }
  Receiver<Sync, Piece> pipe_in(int from, int to) { return end<Receiver<Sync, Piece>, Piece>(pipe(from, to)); }
  std::byte* piece_staging(int from, int to, std::uint64_t piece, std::size_t nbytes) {
    auto pair = std::size_t(from) * layout_.ranks + to;
    auto at = base_ + layout_.pipes + pair * layout_.pipe_bytes + piece * layout_.piece_bytes;
    return from == rank_ ? existing(at, nbytes) : at;
  }
  // These bytes of this rank's staging, which exist from now on. Throws std::system_error where there is no room.
  std::byte* existing(std::byte* at, std::size_t nbytes) {
    if (!brought_.empty()) bring(at, nbytes);
    return at;
  }

 private:
  void check_shape();
  void bring(std::byte* at, std::size_t nbytes);
  std::byte* lane(int from, int to) {
    return base_ + layout_.lanes + (std::size_t(from) * layout_.ranks + to) * layout_.lane_bytes;
  }
  std::byte* pipe(int from, int to) {
    return base_ + layout_.heads + (std::size_t(from) * layout_.ranks + to) * layout_.head_bytes;
  }
  template <class End, class Entry>
  End end(std::byte* at) {
    std::uint64_t depth = sizeof(Entry) == sizeof(Notice) ? layout_.depth : layout_.pieces;
    return End(*reinterpret_cast<Counter*>(at), reinterpret_cast<Entry*>(at + cache_line), depth);
  }

  Layout layout_;
  std::optional<Mapping> mapping_;
  std::byte* base_;
  int rank_ = -1;
  // Which pages of staging this rank has brought; empty where all exist. A byte each: several threads set different
  // ones.
  std::vector<std::uint8_t> brought_;
};

}  // namespace ringtree
