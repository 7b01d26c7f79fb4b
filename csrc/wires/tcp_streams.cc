// Long frames by connections of their own: two that send to each other by one connection make each other's packets
// wait, and a network may allow a single connection only a part of its bandwidth.
//
// Frames are numbered. Each connection carries whole frames in order; a frame whose turn has not come waits, and its
// connection with it. A long payload is received meanwhile, as its place does not depend on the frames before it.
#include <algorithm>
#include <memory>
#include <utility>

#include "wires/tcp.h"

namespace ringtree {

using tcp::Connection, tcp::Link, tcp::Streams;

namespace {

constexpr std::size_t long_bytes = 4096;

}  // namespace

// The connection for a payload of that length: of several streams the one that has the least to send. Another is opened
// when all have something.
Connection* TcpWire::way_for(int peer, std::size_t nbytes) {
  auto& link = links_[peer];
  if (nbytes < long_bytes) return link.connection;
  if (!link.streams) link.streams = std::make_unique<Streams>();
  if (!link.connection) return nullptr;
  auto& streams = *link.streams;
  Connection* least = nullptr;
  std::uint32_t ready = 0;
  for (auto c : streams.sending) {
    if (!c) continue;
    ready++;
    if (!least || c->queue.size() < least->queue.size()) least = c;
  }
  if ((!least || !least->queue.empty()) && ready == streams.opened && ready < options_.connections && !streams.refused)
    streams.refused = dial(peer, ++streams.opened) == nullptr;
  return least ? least : link.connection;
}

// Whether the frame whose head has come is ahead of others that are to be reported before it.
bool TcpWire::early(Connection& c) {
  return tcp::in_order(c.frame.kind) && c.frame.sequence != links_[c.peer].arrived;
}

// Whether the frame whose head has come must wait before its payload; `from`: what has come behind the head.
bool TcpWire::hold(Connection& c, const std::byte* from, std::size_t nbytes) {
  if (!early(c) || c.frame.nbytes >= long_bytes) return false;
  wait_for_turn(c, from, nbytes);
  return true;
}

void TcpWire::wait_for_turn(Connection& c, const std::byte* from, std::size_t nbytes) {
  c.holds = true;
  c.held.assign(reinterpret_cast<const char*>(from), nbytes);
  pause(c, true);
  if (auto& since = links_[c.peer].held_ns; since == 0) since = now_ns();
}

// Frames that have waited for the one that was reported last.
void TcpWire::release_held(Link& link) {
  if (!link.streams || link.releasing) return;
  link.releasing = true;
  link.held_ns = 0;
  auto next = [&]() -> Connection* {
    auto due = [&](Connection* c) { return c && c->holds && !early(*c); };
    if (due(link.connection)) return link.connection;
    auto found = std::ranges::find_if(link.streams->receiving, due);
    return found == link.streams->receiving.end() ? nullptr : *found;
  };
  while (auto c = next()) {
    c->holds = false;
    c->heard_ns = now_ns();
    pause(*c, false);
    auto held = std::exchange(c->held, {});
    if (c->whole ? deliver(*c) : begin_payload(*c))
      consume(*c, reinterpret_cast<const std::byte*>(held.data()), held.size());
  }
  auto holds = [](Connection* c) { return c && c->holds; };
  if (holds(link.connection) || std::ranges::any_of(link.streams->receiving, holds)) link.held_ns = now_ns();
  link.releasing = false;
}

}  // namespace ringtree
