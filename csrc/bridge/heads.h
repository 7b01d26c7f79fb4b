// The part of a message that a frame has besides its number and its payload.
#pragma once

#include <cstring>

#include "memory/segment.h"
#include "waits/long_waits.h"
#include "wires/wire.h"

namespace ringtree {

// The entry of a lane without its number and its payload.
struct DescriptorHead {
  Fingerprint print;
  std::uint32_t call, size;
};
struct PieceHead {
  std::uint64_t total;
  std::int32_t tag;
  std::int16_t dtype;
  std::uint16_t first;
};
// A call that a rank announces: its own, or that of all ranks of its host; or the one before that, which follows.
struct CallHead {
  Fingerprint print;
  std::uint32_t of_all, earlier;
};
static_assert(sizeof(CallHead) == sizeof(Frame::head));
// In the number of a cause, beside the culprit: the sender leaves by an error of its program.
constexpr std::uint64_t by_error = 1ull << 32;
// A wait, as its host tells another of it: how long ago it began, ends, and was seen to go on.
struct WaitHead {
  std::int32_t rank, peer;
  std::int64_t age_ns, left_ns, seen_ns;
  char where[sizeof(WaitRecord::where)];
};
constexpr std::size_t most_waits = 8;  // in a frame
// Of a put, a get and its answer: the bytes of a window that are meant.
struct AccessHead {
  std::uint32_t window, nbytes;
  std::uint64_t offset;
};
static_assert(sizeof(AccessHead) <= sizeof(Frame::head));
static_assert(sizeof(DescriptorHead) == sizeof(Frame::head) && sizeof(PieceHead) <= sizeof(Frame::head));

template <class Head>
inline Head head_of(const Frame& frame) {
  Head head;
  std::memcpy(&head, frame.head.data(), sizeof head);
  return head;
}

inline Protocol protocol_of(const Frame& frame) {
  return static_cast<Protocol>(head_of<DescriptorHead>(frame).size >> 30);
}

}  // namespace ringtree
