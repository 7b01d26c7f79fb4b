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

#include "kernels/copies.h"
#include "machine.h"
#include "memory/limits.h"

namespace ringtree {

using tcp::Connection, tcp::Part, tcp::Sending, tcp::Unsent;

namespace {

constexpr std::size_t read_bytes = 16384;  // small frames arrive many at a time; large payloads go where they belong
constexpr std::size_t few_connections = 3;
constexpr unsigned turns_between_epolls = 8;
constexpr int most_parts = 32;  // of one system call

std::system_error failed(const std::string& what) {
  int error = errno;
  return {error, std::generic_category(), what + limit_behind(error)};
}

std::string why_failed(const char* what, int error) {
  if (error == ECONNREFUSED) return "does not listen any more: it left the group, or its process ended";
  return std::string(what) + ": " + std::strerror(error);
}

}  // namespace

TcpWire::TcpWire(int rank, Options options, Sink& sink)
    : rank_(rank),
      options_(std::move(options)),
      sink_(sink),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      links_(options_.peers.size()) {
  if (events_.fd() < 0) throw failed("cannot make an epoll descriptor");
  if (options_.listener.fd() >= 0 && !listen(EPOLL_CTL_ADD)) throw failed("cannot watch the listening socket");
}

// Whether new connections are watched for from now on, or (EPOLL_CTL_DEL) no more.
bool TcpWire::listen(int change) {
  epoll_event event{EPOLLIN, {nullptr}};
  return epoll_ctl(events_.fd(), change, options_.listener.fd(), &event) == 0;
}

void TcpWire::watch(Connection& c) {
  epoll_event event{(c.paused ? 0u : EPOLLIN) | (c.writes ? EPOLLOUT : 0u), {&c}};
  epoll_ctl(events_.fd(), EPOLL_CTL_MOD, c.fd, &event);
}

// A connection that is paused is not read.
void TcpWire::pause(Connection& c, bool paused) {
  if (c.dead || c.paused == paused) return;
  c.paused = paused;
  watch(c);
}

void TcpWire::send(int peer, const Frame& frame, const std::byte* payload) {
  auto& link = links_[peer];
  auto width = payload ? width_for(peer, frame.nbytes) : 0;
  if (width == 0) return send_part(peer, link.connection, {frame, 0, frame.nbytes}, payload);
  std::uint32_t begin = 0;
  for (std::uint32_t k = 1; k <= width && !link.lost; k++) {
    auto end = static_cast<std::uint32_t>(std::uint64_t{frame.nbytes} * k / width);
    send_part(peer, link.streams->sending[k], {frame, begin, end - begin}, payload + begin);
    begin = end;
  }
}

// `way`: nullptr: the pair's connection, once it is there.
void TcpWire::send_part(int peer, Connection* way, Part part, const std::byte* payload) {
  auto& link = links_[peer];
  Sending sending;
  if (tcp::in_order(part.frame.kind)) part.turn = link.sent++;
  sending.part = part;
  sending.payload = payload;
  sending.payload_bytes = part.nbytes;
  if (link.streams && payload) sending.unsent = &link.streams->unsent.emplace_back(Unsent{part});
  if (way && way->queue.empty()) sending.done = sent_at_once(*way, sending);
  if (sending.done == sending.nbytes()) {
    if (payload) completed(peer, sending);
  } else if (way) {
    enqueue(*way, std::move(sending));
  } else {
    push(peer, std::move(sending));
  }
}

// How many bytes the network took.
std::size_t TcpWire::sent_at_once(Connection& c, const Sending& sending) {
  iovec parts[2] = {{const_cast<Part*>(&sending.part), sending.head_bytes},
                    {const_cast<std::byte*>(sending.payload), sending.payload_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = sending.payload_bytes ? 2 : 1;
  auto written = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  c.sent_ns = now_ns();
  return written < 0 ? 0 : static_cast<std::size_t>(written);
}

void TcpWire::send(int peer, const Frame& frame, std::string payload) {
  Sending sending;
  auto& part = sending.part;
  part.frame = frame;
  part.frame.nbytes = part.nbytes = static_cast<std::uint32_t>(payload.size());
  if (tcp::in_order(frame.kind)) part.turn = links_[peer].sent++;
  sending.payload_bytes = payload.size();
  sending.own = std::move(payload);
  push(peer, std::move(sending));
}

void TcpWire::keep_payloads() {
  auto keep = [](std::deque<Sending>& queue) {
    for (auto& s : queue) {
      if (!s.payload || !s.own.empty()) continue;
      s.own.assign(reinterpret_cast<const char*>(s.payload), s.payload_bytes);
      s.payload = nullptr;
    }
  };
  for (auto& c : connections_) keep(c->queue);
  for (auto& link : links_) keep(link.waiting);
}

bool TcpWire::busy() const {
  return std::ranges::any_of(connections_, [](auto& c) { return !c->queue.empty() && !c->dead; });
}

// By the pair's connection, in order; where there is none yet it is made.
void TcpWire::push(int peer, Sending sending) {
  connect(peer);
  auto& link = links_[peer];
  if (link.connection)
    enqueue(*link.connection, std::move(sending));
  else if (link.any())
    link.waiting.push_back(std::move(sending));
}

void TcpWire::enqueue(Connection& c, Sending sending) {
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
      if (s.done < s.head_bytes) parts[n++] = {reinterpret_cast<std::byte*>(&s.part) + s.done, s.head_bytes - s.done};
      auto rest = s.nbytes() - std::max(s.done, s.head_bytes);
      if (rest) parts[n++] = {const_cast<std::byte*>(s.bytes()) + (s.payload_bytes - rest), rest};
      whole += s.nbytes() - s.done;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = n;
    auto written = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      int error = errno;  // which a text made of it may change
      if (error == EINTR) continue;
      if (error == EAGAIN || error == ENOTCONN) break;
      auto why = why_failed("cannot be sent to", error);
      return error == ECONNRESET || error == EPIPE ? closed(c, why) : fail(c, why);
    }
    c.sent_ns = now_ns();
    for (auto left = static_cast<std::size_t>(written); left > 0;) {
      auto& s = c.queue.front();
      auto step = std::min(left, s.nbytes() - s.done);
      s.done += step;
      left -= step;
      if (s.done < s.nbytes()) break;
      auto sent = std::move(s);
      c.queue.pop_front();
      if (sent.payload) completed(c.peer, sent);
    }
    if (static_cast<std::size_t>(written) < whole) break;
  }
  if (c.writes == !c.queue.empty()) return;
  c.writes = !c.writes;
  watch(c);
}

// Reports the payloads that the network has taken, in the order of their frames.
void TcpWire::completed(int peer, const Sending& sending) {
  if (!sending.unsent) return sink_.sent(peer, sending.part.frame);
  sending.unsent->done = true;
  for (auto& all = links_[peer].streams->unsent; !all.empty() && all.front().done;) {
    auto part = all.front().part;
    all.pop_front();
    if (part.last()) sink_.sent(peer, part.frame);
  }
}

bool TcpWire::read(Connection& c) {
  bool moved = false;
  while (!c.paused) {
    auto rest = c.in_payload ? c.part.nbytes - c.payload_done : 0;
    std::byte small[read_bytes];
    iovec parts[2] = {{c.in_payload ? c.target + c.payload_done : nullptr, rest}, {small, sizeof small}};
    msghdr message{};
    message.msg_iov = rest ? parts : parts + 1;
    message.msg_iovlen = rest ? 2 : 1;
    auto got = recvmsg(c.fd, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == ECONNRESET)
        closed(c, why_failed("cannot be reached", errno));
      else if (errno != EAGAIN)
        fail(c, why_failed("cannot be reached", errno));
      return moved;
    }
    if (got == 0) {
      closed(c, c.greeted ? "closed its connection" : "refused the connection");
      return moved;
    }
    moved = true;
    c.heard_ns = now_ns();
    auto direct = std::min<std::size_t>(got, rest);
    if (direct) {
      c.payload_done += direct;
      if (c.payload_done == c.part.nbytes && !end_frame(c, small, static_cast<std::size_t>(got) - direct)) return moved;
    }
    if (!consume(c, small, static_cast<std::size_t>(got) - direct)) return moved;
    if (static_cast<std::size_t>(got) < rest + sizeof small) return moved;  // there is no more
  }
  return moved;
}

// Bytes of heads, and of payloads that came with them. False: the connection is at its end.
bool TcpWire::consume(Connection& c, const std::byte* from, std::size_t nbytes) {
  while (nbytes > 0) {
    if (c.in_payload) {
      auto step = std::min<std::size_t>(nbytes, c.part.nbytes - c.payload_done);
      copy_bytes(c.target + c.payload_done, from, step);
      c.payload_done += step;
      from += step;
      nbytes -= step;
      if (c.payload_done == c.part.nbytes && !end_frame(c, from, nbytes)) return false;
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
      if (!greet(c)) return false;
      continue;
    }
    if (c.stream && c.outgoing) {
      fail(c, "sent what nobody asked for");
      return false;
    }
    std::memcpy(&c.part, c.head.data(), sizeof(Part));
    if (hold(c, from, nbytes) || !begin_payload(c)) return false;
  }
  return true;
}

bool TcpWire::begin_payload(Connection& c) {
  auto& part = c.part;
  if (part.nbytes == 0 && part.frame.nbytes == 0 && part.offset == 0) return deliver(c);
  bool within = part.nbytes > 0 && part.offset <= part.frame.nbytes && part.nbytes <= part.frame.nbytes - part.offset;
  auto target = within ? sink_.place(c.peer, part.frame, c.keeps) : nullptr;
  if (!target) {
    fail(c, "sent what nobody asked for");
    return false;
  }
  c.target = target + part.offset;
  c.payload_done = 0;
  c.in_payload = true;
  return true;
}

bool TcpWire::end_frame(Connection& c, const std::byte* from, std::size_t nbytes) {
  c.in_payload = false;
  c.keeps.reset();
  if (!early(c)) return deliver(c);
  c.whole = true;
  wait_for_turn(c, from, nbytes);
  return false;
}

// A part is all there and has its turn: with the last of its frame that is reported.
bool TcpWire::deliver(Connection& c) {
  auto& link = links_[c.peer];
  auto& frame = c.part.frame;
  c.whole = false;
  if (frame.kind == Frame::Kind::left) {
    link.left = true;
    Sending answer;
    answer.part.frame.kind = Frame::Kind::farewell;
    push(c.peer, std::move(answer));
  }
  if (frame.kind == Frame::Kind::farewell) link.awaits_farewell = false;
  if (c.part.last() && !sink_.arrived(c.peer, frame)) fail(c, "sent what nobody asked for");
  if (c.dead || !tcp::in_order(frame.kind)) return !c.dead;
  link.arrived++;
  release_held(link);
  return !c.dead;
}

// Few connections are read at once, which saves the question which of them have something. Now and then epoll is asked
// all the same, for those that are new or full.
bool TcpWire::progress() {
  bool asks = ++turns_ % turns_between_epolls == 0 || connections_.size() > 2 * few_connections;
  auto brings = [](auto& c) { return !c->stream || !c->outgoing; };
  asks = asks || std::ranges::count_if(connections_, brings) > static_cast<std::ptrdiff_t>(few_connections);
  return asks ? progress_by_events() : progress_by_reading();
}

bool TcpWire::progress_by_reading() {
  bool moved = false;
  for (std::size_t k = 0; k < connections_.size(); k++)
    if (auto& c = *connections_[k]; !c.dead && c.greeted && !c.paused && !(c.stream && c.outgoing)) moved |= read(c);
  bury();
  return moved;
}

bool TcpWire::progress_by_events() {
  epoll_event events[32];
  int n = epoll_wait(events_.fd(), events, 32, 0);
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
    if (!c->dead && c->paused && (events[k].events & (EPOLLHUP | EPOLLERR))) fail(*c, "closed its connection");
    if (!c->dead && (events[k].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) moved |= read(*c);
  }
  bury();
  return moved;
}

}  // namespace ringtree
