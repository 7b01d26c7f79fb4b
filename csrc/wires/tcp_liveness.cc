// How connections of the TCP wire end: heartbeats and silence, loss, and leaving.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "wires/liveness.h"
#include "wires/tcp.h"

namespace ringtree {

using tcp::Connection, tcp::Sending;

namespace {

constexpr int most_redials = 3;

}  // namespace

// Since when a connection has brought nothing of what it owes: now, where it owes nothing.
std::int64_t TcpWire::silent_since(const Connection& c, std::int64_t now) const {
  if (c.holds) return now;
  if (!c.greeted || !c.stream) return c.heard_ns;
  auto held_ns = links_[c.peer].held_ns;
  return !c.outgoing && (c.in_payload || held_ns) ? std::max(c.heard_ns, held_ns) : now;
}

// Takes what has come by connections that seem overdue: where this rank stood still for a while, it lies there unread.
void TcpWire::catch_up(std::int64_t now) {
  auto is_late = [&](auto& link) { return link.crossed_ns && overdue(now, link.crossed_ns, false); };
  bool awaits_connection = std::ranges::any_of(links_, is_late);
  if (awaits_connection) accept_all();
  for (std::size_t k = 0; k < connections_.size(); k++) {
    auto& c = *connections_[k];
    bool is_new = awaits_connection && !c.greeted && !c.outgoing;
    if (!c.dead && (is_new || overdue(now, silent_since(c, now), c.greeted))) read(c);
  }
}

void TcpWire::tick() {
  auto now = now_ns();
  if (std::exchange(full_, false)) listen(EPOLL_CTL_ADD);
  catch_up(now);
  for (std::size_t k = 0; k < connections_.size(); k++) {
    auto& c = *connections_[k];
    if (c.dead) continue;
    if (auto why = overdue(now, silent_since(c, now), c.greeted)) {
      fail(c, why);
      continue;
    }
    if (!c.greeted || c.stream || c.writes || !heartbeat_due(now, c.sent_ns)) continue;
    Sending beat;
    beat.part.frame.kind = Frame::Kind::heartbeat;
    enqueue(c, std::move(beat));
  }
  for (std::size_t peer = 0; peer < links_.size(); peer++)
    if (auto crossed_ns = links_[peer].crossed_ns)
      if (auto why = overdue(now, crossed_ns, false)) lose(static_cast<int>(peer), why);
  bury();
}

void TcpWire::announce_to_all(Frame::Kind kind) {
  for (std::size_t peer = 0; peer < links_.size(); peer++) {
    auto& link = links_[peer];
    if (!link.any()) continue;
    link.awaits_farewell = kind == Frame::Kind::left && !link.left;
    Sending last;
    last.part.frame.kind = kind;
    last.part.turn = link.sent++;
    push(static_cast<int>(peer), std::move(last));
  }
}

void TcpWire::leave() {
  leaving_ = true;
  announce_to_all(Frame::Kind::left);
}

void TcpWire::depart() {
  announce_to_all(Frame::Kind::gone);
}

bool TcpWire::finished() const {
  return std::ranges::none_of(links_, [](auto& link) { return link.awaits_farewell; });
}

// Closes a connection about which there is nothing to report.
void TcpWire::discard(Connection& c) {
  if (c.dead) return;
  c.dead = any_dead_ = true;
  epoll_ctl(events_.fd(), EPOLL_CTL_DEL, c.fd, nullptr);
  shutdown(c.fd, SHUT_RDWR);
}

// A peer that needed room closes a connection whose proof it has not read yet: there is another one.
void TcpWire::closed(Connection& c, const std::string& why) {
  bool first = c.outgoing && !c.greeted && !c.stream && !c.dead && !leaving_;
  if (!first || links_[c.peer].redials++ >= most_redials) return fail(c, why);
  discard(c);
  links_[c.peer].connecting = dial(c.peer, 0);
}

void TcpWire::fail(Connection& c, const std::string& why) {
  if (c.dead) return;
  discard(c);
  if (c.peer < 0) return;
  if (c.stream && !c.greeted)
    links_[c.peer].streams->refused = true;
  else
    lose(c.peer, why);
}

// All connections to that peer end; one that left, or that this rank leaves, is no loss.
void TcpWire::lose(int peer, const std::string& why) {
  auto& link = links_[peer];
  if (link.lost) return;
  link.lost = !link.left && !leaving_;
  link.awaits_farewell = false;
  link.connection = link.connecting = nullptr;
  link.crossed_ns = 0;
  for (auto& c : connections_)
    if (c->peer == peer) discard(*c);
  if (link.lost) sink_.lost(peer, why);
}

void TcpWire::bury() {
  if (!any_dead_) return;
  for (auto& c : connections_)
    if (c->dead && c->peer >= 0 && c->stream && links_[c->peer].streams) {
      auto& streams = *links_[c->peer].streams;
      for (auto of : {&streams.sending, &streams.receiving}) std::ranges::replace(*of, c.get(), nullptr);
    }
  std::erase_if(connections_, [](auto& c) { return c->dead; });
  any_dead_ = false;
}

}  // namespace ringtree
