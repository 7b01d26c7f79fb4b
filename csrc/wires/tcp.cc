#include "wires/tcp.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "machine.h"
#include "wires/liveness.h"

namespace ringtree {

using tcp::Connection, tcp::Hello, tcp::Sending;

namespace {

constexpr std::size_t read_bytes = 16384;  // small frames arrive many at a time; large payloads go where they belong
constexpr std::size_t few_connections = 4;
constexpr unsigned turns_between_epolls = 8;
constexpr int most_parts = 32;  // of one system call

std::system_error failed(const char* what) {
  return {errno, std::generic_category(), what};
}

}  // namespace

TcpWire::TcpWire(int rank, Options options, Sink& sink)
    : rank_(rank),
      options_(std::move(options)),
      sink_(sink),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      to_(options_.peers.size()),
      from_(options_.peers.size()),
      left_(options_.peers.size()),
      lost_(options_.peers.size()) {
  if (events_ < 0) throw failed("cannot make an epoll descriptor");
  epoll_event event{EPOLLIN, {nullptr}};
  if (options_.listener >= 0 && epoll_ctl(events_, EPOLL_CTL_ADD, options_.listener, &event) != 0)
    throw failed("cannot watch the listening socket");
}

TcpWire::~TcpWire() {
  connections_.clear();
  if (options_.listener >= 0) close(options_.listener);
  close(events_);
}

void TcpWire::watch(Connection& c, bool writes) {
  epoll_event event{EPOLLIN | (writes ? EPOLLOUT : 0u), {&c}};
  epoll_ctl(events_, EPOLL_CTL_MOD, c.fd, &event);
  c.writes = writes;
}

// What answers may go by the peer's own connection; everything else goes by ours, and so stays in order.
Connection* TcpWire::way_to(int peer, bool answers) {
  if (lost_[peer]) return nullptr;
  if (!to_[peer] && answers && from_[peer]) return from_[peer];
  if (!to_[peer]) connect(peer);
  return to_[peer];
}

void TcpWire::send(int peer, const Frame& frame, const std::byte* payload) {
  auto c = way_to(peer, frame.kind == Frame::Kind::credit);
  if (!c || c->dead) return;
  Sending sending;
  sending.frame = frame;
  sending.payload = payload;
  if (c->queue.empty() && !c->writes && (sending.done = sent_at_once(*c, frame, payload)) == sending.nbytes()) {
    if (payload) sink_.sent(peer, frame);
    return;
  }
  c->queue.push_back(std::move(sending));
  write(*c);
}

// How many bytes the network took; where there is no room, write() waits for some.
std::size_t TcpWire::sent_at_once(Connection& c, const Frame& frame, const std::byte* payload) {
  iovec parts[2] = {{const_cast<Frame*>(&frame), sizeof frame}, {const_cast<std::byte*>(payload), frame.nbytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = frame.nbytes ? 2 : 1;
  auto written = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  c.sent_ns = now_ns();
  return written < 0 ? 0 : static_cast<std::size_t>(written);
}

void TcpWire::send(int peer, const Frame& frame, std::string payload) {
  Sending sending;
  sending.frame = frame;
  sending.frame.nbytes = static_cast<std::uint32_t>(payload.size());
  sending.own = std::move(payload);
  if (auto c = way_to(peer, false)) push(*c, std::move(sending));
}

void TcpWire::push(Connection& c, Sending sending) {
  if (c.dead) return;
  c.queue.push_back(std::move(sending));
  if (!c.writes) write(c);
}

void TcpWire::write(Connection& c) {
  while (!c.queue.empty()) {
    iovec parts[most_parts];
    int n = 0;
    std::size_t whole = 0;
    for (auto& s : c.queue) {
      if (n + 2 > most_parts) break;
      if (s.done < s.head()) parts[n++] = {reinterpret_cast<std::byte*>(&s.frame) + s.done, s.head() - s.done};
      auto rest = s.nbytes() - std::max(s.done, s.head());
      if (rest) parts[n++] = {const_cast<std::byte*>(s.bytes()) + (s.nbytes() - s.head() - rest), rest};
      whole += s.nbytes() - s.done;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = n;
    auto written = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOTCONN) break;
      return fail(c, std::string("cannot be sent to: ") + std::strerror(errno));
    }
    c.sent_ns = now_ns();
    for (auto left = static_cast<std::size_t>(written); left > 0;) {
      auto& s = c.queue.front();
      auto step = std::min(left, s.nbytes() - s.done);
      s.done += step;
      left -= step;
      if (s.done < s.nbytes()) break;
      auto frame = s.frame;
      bool completed = s.framed && s.payload;
      c.queue.pop_front();
      if (completed) sink_.sent(c.peer, frame);
    }
    if (static_cast<std::size_t>(written) < whole) break;
  }
  if (c.writes != !c.queue.empty()) watch(c, !c.queue.empty());
}

bool TcpWire::read(Connection& c) {
  bool moved = false;
  for (;;) {
    auto rest = c.in_payload ? c.frame.nbytes - c.payload_done : 0;
    std::byte small[read_bytes];
    iovec parts[2] = {{c.in_payload ? c.target + c.payload_done : nullptr, rest}, {small, sizeof small}};
    msghdr message{};
    message.msg_iov = rest ? parts : parts + 1;
    message.msg_iovlen = rest ? 2 : 1;
    auto got = recvmsg(c.fd, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) fail(c, std::string("cannot be reached: ") + std::strerror(errno));
      return moved;
    }
    if (got == 0) {
      fail(c, c.greeted ? "closed its connection" : "refused the connection");
      return moved;
    }
    moved = true;
    c.heard_ns = now_ns();
    auto direct = std::min<std::size_t>(got, rest);
    if (direct) {
      c.payload_done += direct;
      if (c.payload_done == c.frame.nbytes && !end_frame(c)) return moved;
    }
    if (!consume(c, small, static_cast<std::size_t>(got) - direct)) return moved;
    if (static_cast<std::size_t>(got) < rest + sizeof small) return moved;  // there is no more
  }
}

// Bytes of heads, and of payloads that came with them. False: the connection is at its end.
bool TcpWire::consume(Connection& c, const std::byte* from, std::size_t nbytes) {
  while (nbytes > 0) {
    if (c.in_payload) {
      auto step = std::min<std::size_t>(nbytes, c.frame.nbytes - c.payload_done);
      std::memcpy(c.target + c.payload_done, from, step);
      c.payload_done += step;
      from += step;
      nbytes -= step;
      if (c.payload_done == c.frame.nbytes && !end_frame(c)) return false;
      continue;
    }
    auto step = std::min(nbytes, c.head_bytes() - c.head_done);
    std::memcpy(c.head.data() + c.head_done, from, step);
    c.head_done += step;
    from += step;
    nbytes -= step;
    if (c.head_done < c.head_bytes()) continue;
    c.head_done = 0;
    if (!c.greeted) {
      Hello hello{};
      std::memcpy(&hello, c.head.data(), c.head_bytes());
      if (!greet(c, hello)) return false;
      continue;
    }
    std::memcpy(&c.frame, c.head.data(), sizeof(Frame));
    if (!begin_payload(c)) return false;
  }
  return true;
}

bool TcpWire::begin_payload(Connection& c) {
  if (c.frame.nbytes == 0) return end_frame(c);
  c.target = sink_.place(c.peer, c.frame);
  if (!c.target) {
    fail(c, "sent what nobody asked for");
    return false;
  }
  c.payload_done = 0;
  c.in_payload = true;
  return true;
}

bool TcpWire::end_frame(Connection& c) {
  c.in_payload = false;
  if (c.frame.kind == Frame::Kind::left) {
    left_[c.peer] = true;
    Sending answer;
    answer.frame.kind = Frame::Kind::farewell;
    push(c, std::move(answer));
  }
  if (c.frame.kind == Frame::Kind::farewell) c.awaits_farewell = false;
  if (!sink_.arrived(c.peer, c.frame)) fail(c, "sent what nobody asked for");
  return !c.dead;
}

void TcpWire::fail(Connection& c, const std::string& why) {
  if (c.dead) return;
  c.dead = any_dead_ = true;
  epoll_ctl(events_, EPOLL_CTL_DEL, c.fd, nullptr);
  shutdown(c.fd, SHUT_RDWR);
  if (c.peer < 0) return;
  if (to_[c.peer] == &c) to_[c.peer] = nullptr;
  if (from_[c.peer] == &c) from_[c.peer] = nullptr;
  if (left_[c.peer] || leaving_ || lost_[c.peer]) return;
  lost_[c.peer] = true;
  sink_.lost(c.peer, why);
}

void TcpWire::bury() {
  if (!any_dead_) return;
  std::erase_if(connections_, [](auto& c) { return c->dead; });
  any_dead_ = false;
}

// Few connections are read at once, which saves the question which of them have something: those that the peers made,
// by which they send. Now and then epoll is asked all the same, for the others, and for those that are new or full.
bool TcpWire::progress() {
  bool asks = ++turns_ % turns_between_epolls == 0 || connections_.size() > few_connections;
  return asks ? progress_by_events() : progress_by_reading();
}

bool TcpWire::progress_by_reading() {
  bool moved = false;
  for (std::size_t k = 0; k < connections_.size(); k++)
    if (auto& c = *connections_[k]; !c.dead && c.greeted && !c.outgoing) moved |= read(c);
  bury();
  return moved;
}

bool TcpWire::progress_by_events() {
  epoll_event events[32];
  int n = epoll_wait(events_, events, 32, 0);
  bool moved = false;
  for (int k = 0; k < n; k++) {
    auto c = static_cast<Connection*>(events[k].data.ptr);
    if (!c) {
      accept_all();
      moved = true;
      continue;
    }
    if (!c->dead && (events[k].events & EPOLLOUT)) {
      auto before = c->queue.size();
      write(*c);
      moved |= c->queue.size() != before;
    }
    if (!c->dead && (events[k].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) moved |= read(*c);
  }
  bury();
  return moved;
}

void TcpWire::tick() {
  auto now = now_ns();
  if (std::exchange(full_, false)) {
    epoll_event event{EPOLLIN, {nullptr}};
    epoll_ctl(events_, EPOLL_CTL_ADD, options_.listener, &event);
  }
  for (std::size_t k = 0; k < connections_.size(); k++) {
    auto& c = *connections_[k];
    if (c.dead) continue;
    if (auto why = overdue(now, c.heard_ns, c.greeted)) {
      fail(c, why);
      continue;
    }
    if (!c.greeted || c.writes || !heartbeat_due(now, c.sent_ns)) continue;
    Sending beat;
    beat.frame.kind = Frame::Kind::heartbeat;
    push(c, std::move(beat));
  }
  bury();
}

// By the connection that this rank's data takes, so that it comes behind the data; by the peer's where there is no
// other.
void TcpWire::announce_to_all(Frame::Kind kind) {
  for (std::size_t peer = 0; peer < to_.size(); peer++) {
    auto c = to_[peer] ? to_[peer] : from_[peer];
    if (!c || c->dead) continue;
    c->awaits_farewell = kind == Frame::Kind::left && !left_[peer];
    Sending last;
    last.frame.kind = kind;
    push(*c, std::move(last));
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
  return std::ranges::none_of(connections_, [](auto& c) { return !c->dead && c->awaits_farewell; });
}

}  // namespace ringtree
