// One TCP connection between two ranks: what is being sent, and what has come of the next frame.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>

#include "machine.h"
#include "wires/proof.h"
#include "wires/wire.h"

namespace ringtree::tcp {

constexpr std::uint64_t magic = 0x31307474676e6972;  // "ringtt01"

// The first bytes of a connection. The welcome that answers it is the magic alone.
struct Hello {
  std::uint64_t magic, group;
  std::int32_t from, to;
  Proof proof;
};

struct Sending {
  Frame frame{};
  const std::byte* payload = nullptr;
  std::string own;     // the payload, where the wire keeps it
  bool framed = true;  // else `own` is all that is sent
  std::size_t done = 0;

  std::size_t head() const { return framed ? sizeof(Frame) : 0; }
  std::size_t nbytes() const { return head() + (framed ? frame.nbytes : own.size()); }
  const std::byte* bytes() const { return payload ? payload : reinterpret_cast<const std::byte*>(own.data()); }
};

struct Connection {
  int fd = -1;
  int peer = -1;  // -1: not yet known
  bool outgoing = false, greeted = false, dead = false, writes = false, awaits_farewell = false;
  std::deque<Sending> queue;
  std::int64_t sent_ns = now_ns(), heard_ns = now_ns();
  // What arrives: a head (hello, welcome, frame), then a payload.
  alignas(Frame) std::array<std::byte, sizeof(Hello)> head;
  std::size_t head_done = 0;
  Frame frame{};
  std::byte* target = nullptr;
  std::size_t payload_done = 0;
  bool in_payload = false;

  ~Connection() {
    if (fd >= 0) close(fd);
  }
  std::size_t head_bytes() const { return greeted ? sizeof(Frame) : outgoing ? sizeof(magic) : sizeof(Hello); }
};

}  // namespace ringtree::tcp
