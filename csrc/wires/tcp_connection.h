// One TCP connection between two ranks: what is being sent, and what has come of the next frame.
#pragma once

#include <unistd.h>

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "machine.h"
#include "wires/proof.h"
#include "wires/wire.h"

namespace ringtree::tcp {

constexpr std::uint64_t magic = 0x33307474676e6972;  // "ringtt03"

// Whether frames of that kind are reported in the order in which they were sent.
inline bool in_order(Frame::Kind kind) {
  using Kind = Frame::Kind;
  return kind != Kind::credit && kind != Kind::heartbeat && kind != Kind::call && kind != Kind::farewell &&
         kind != Kind::failure;
}

// The first bytes of a connection. `stream`: 0 for the connection that serves both directions, else which of those that
// take long frames one way.
struct Hello {
  std::uint64_t magic, group;
  std::int32_t from, to;
  std::uint32_t stream, reserved;
  Proof proof;
};

// The first bytes of the other side: frames may follow, or its own connection takes the place of this one.
struct Answer {
  enum class Word : std::uint64_t { welcome = magic, crossed = magic + 1 };
  Word word;
  Proof proof;
};

// What a connection carries: a frame, or the part of one that begins at `offset` of its payload. `turn`: its place
// among those that are reported in order, whichever connection they take.
struct Part {
  Frame frame{};
  std::uint32_t offset = 0, nbytes = 0, turn = 0, reserved = 0;

  bool last() const { return offset + nbytes == frame.nbytes; }
};
static_assert(sizeof(Part) == 64);

// A payload on its way. Payloads are reported as sent in the order in which the caller gave them, whichever connection
// is done first.
struct Unsent {
  Part part{};
  bool done = false;
};

struct Sending {
  Part part{};
  const std::byte* payload = nullptr;
  std::string own;  // the payload, where the wire keeps it
  std::size_t head_bytes = sizeof(Part);
  std::size_t payload_bytes = 0;
  Unsent* unsent = nullptr;
  std::size_t done = 0;

  std::size_t nbytes() const { return head_bytes + payload_bytes; }
  const std::byte* bytes() const { return payload ? payload : reinterpret_cast<const std::byte*>(own.data()); }
};

struct Connection {
  int fd = -1;
  int peer = -1;             // -1: not yet known
  std::uint32_t stream = 0;  // as in Hello
  bool outgoing = false, greeted = false, dead = false;
  bool writes = false, paused = false;  // what is watched: room to write; nothing to read
  bool holds = false;                   // its part waits for earlier ones that come by other connections
  std::deque<Sending> queue;
  std::int64_t sent_ns = now_ns(), heard_ns = now_ns();
  // What arrives: a head (hello, answer, part), then a payload.
  std::array<std::byte, sizeof(Hello)> head;
  std::size_t head_done = 0;
  Part part{};
  std::byte* target = nullptr;
  std::shared_ptr<void> keeps;  // the target, as in Wire::Sink
  std::size_t payload_done = 0;
  bool in_payload = false;
  bool whole = false;  // what waits has all its payload
  std::string held;    // what has come behind it

  ~Connection() {
    if (fd >= 0) close(fd);
  }
  std::size_t head_bytes() const { return greeted ? sizeof(Part) : outgoing ? sizeof(Answer) : sizeof(Hello); }
};

// The connections that take long frames one way.
struct Streams {
  static constexpr std::size_t most = 16;

  std::array<Connection*, most> sending{}, receiving{};
  std::deque<Unsent> unsent;
  std::uint32_t opened = 0;  // of those that send
  bool refused = false;      // the peer takes no more
  // The number of them that a payload is spread over: `narrow`, or while it is chosen twice as many by turns.
  std::uint32_t width = 1, narrow = 1;
  bool settled = false;
  std::uint64_t settled_bytes = 32ull << 20;
  std::uint64_t given_bytes = 0, acknowledged_bytes = 0, busy_us = 0;
  int rates = 0;
  std::array<double, 3> narrow_Bps{}, wide_Bps{};
};

// What the wire has with a peer.
struct Link {
  Connection* connection = nullptr;     // carries frames, both ways
  Connection* connecting = nullptr;     // made here, and not yet answered
  int redials = 0;                      // after the peer had closed such a connection
  std::int64_t crossed_ns = 0;          // since when the peer's own connection is expected in place of that
  std::deque<Sending> waiting;          // for a connection
  std::uint32_t sent = 0, arrived = 0;  // the next turns
  bool left = false, lost = false, awaits_farewell = false;
  bool releasing = false;    // frames that were held
  std::int64_t held_ns = 0;  // since when one is
  std::unique_ptr<Streams> streams;

  bool any() const { return connection || connecting || crossed_ns; }
};

}  // namespace ringtree::tcp
