// Long payloads by connections of their own: two ranks that send to each other by one connection make each other's
// packets wait, and a network may allow a single connection only a part of its bandwidth.
//
// Each connection carries frames, or parts of them, in order. A part that has not its turn among all of a pair's
// connections waits, and its connection with it; a long payload is received meanwhile, as its place does not depend on
// the frames before it. A payload is spread over twice as many streams as long as that makes a pair much faster; never
// where several pairs share a link, as there a pair that takes more of it takes it from the others.
#include <linux/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "wires/tcp.h"

namespace ringtree {

using tcp::Connection, tcp::Link, tcp::Streams;

namespace {

constexpr std::size_t long_bytes = 4096;
constexpr std::size_t spread_bytes = 32768;           // shorter payloads are not cut
constexpr std::uint64_t measured_bytes = 4ull << 20;  // a rate is asked for after so many,
constexpr std::uint64_t measured_us = 40'000;         // and known after so long: the kernel counts in ticks
constexpr double much_faster = 1.4;

struct Sent {
  std::uint64_t acknowledged_bytes, busy_us;
};

// What a connection has sent since it was made, and for how long it had something to send.
Sent sent_by(const Connection& c) {
  tcp_info info{};
  socklen_t length = sizeof info;
  getsockopt(c.fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  return {info.tcpi_bytes_acked, info.tcpi_busy_time};
}

double median(std::array<double, 3> of) {
  std::ranges::sort(of);
  return of[1];
}

}  // namespace

// By how many streams a payload of that length goes; 0: by the pair's connection.
std::uint32_t TcpWire::width_for(int peer, std::size_t nbytes) {
  auto& link = links_[peer];
  if (nbytes < long_bytes || options_.connections == 0) return 0;
  if (!link.streams) link.streams = std::make_unique<Streams>();
  if (!link.connection || !open_streams(peer, 1)) return 0;
  if (nbytes < spread_bytes) return 1;
  if (!options_.measures) return open_streams(peer, options_.connections) ? options_.connections : 1;
  auto& streams = *link.streams;
  streams.given_bytes += nbytes;
  if (streams.given_bytes >= (streams.settled ? streams.settled_bytes : measured_bytes)) measure(peer);
  return streams.width;
}

// Whether so many streams are there; opens those that are not.
bool TcpWire::open_streams(int peer, std::uint32_t wanted) {
  auto& streams = *links_[peer].streams;
  while (streams.opened < wanted && !streams.refused) streams.refused = dial(peer, ++streams.opened) == nullptr;
  auto last = streams.sending.begin() + 1 + wanted;
  return std::all_of(streams.sending.begin() + 1, last, [](auto c) { return c && !c->dead; });
}

// Compares the rate of payloads over `narrow` streams with that over twice as many, by turns: a machine may be slower
// for a while, and no rate alone says why.
void TcpWire::measure(int peer) {
  auto& streams = *links_[peer].streams;
  auto [acknowledged_bytes, busy_us] = sent_by(*streams.sending[1]);
  streams.given_bytes = 0;
  if (std::exchange(streams.settled, false)) {  // asked again, ever more seldom
    streams.settled_bytes *= 2;
    streams.rates = 0;
    streams.busy_us = busy_us;
    streams.acknowledged_bytes = acknowledged_bytes;
    return;
  }
  if (busy_us - streams.busy_us < measured_us) return;
  auto in_use = std::ranges::count_if(links_, [](auto& link) { return link.streams && link.streams->sending[1]; });
  if (in_use > 1 || 2 * streams.narrow > options_.connections || streams.refused) {
    streams.settled = true;
    return;
  }
  if (!open_streams(peer, 2 * streams.narrow)) return;  // until they are there
  auto nbytes = static_cast<double>(acknowledged_bytes - streams.acknowledged_bytes) * streams.width;
  auto rate_Bps = nbytes * 1e6 / static_cast<double>(busy_us - streams.busy_us);
  streams.acknowledged_bytes = acknowledged_bytes;
  streams.busy_us = busy_us;
  bool wide = streams.width > streams.narrow;
  auto& rates_Bps = wide ? streams.wide_Bps : streams.narrow_Bps;
  rates_Bps[streams.rates++ / 2] = rate_Bps;
  streams.width = wide ? streams.narrow : 2 * streams.narrow;
  if (streams.rates < 2 * std::ssize(rates_Bps)) return;
  streams.rates = 0;
  streams.settled = median(streams.wide_Bps) <= much_faster * median(streams.narrow_Bps);
  if (!streams.settled) streams.narrow *= 2;
  streams.width = streams.narrow;
}

// Whether the frame whose head has come is ahead of others that are to be reported before it.
bool TcpWire::early(Connection& c) {
  return tcp::in_order(c.part.frame.kind) && c.part.turn != links_[c.peer].arrived;
}

// Whether the frame whose head has come must wait before its payload; `from`: what has come behind the head.
bool TcpWire::hold(Connection& c, const std::byte* from, std::size_t nbytes) {
  if (!early(c) || c.part.frame.nbytes >= long_bytes) return false;
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
