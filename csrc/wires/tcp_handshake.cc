// Makes and accepts the connections of the TCP wire, whose two sides prove who they are.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "memory/limits.h"
#include "wires/tcp.h"

namespace ringtree {

using tcp::Answer, tcp::Connection, tcp::Hello, tcp::Sending, tcp::Streams, tcp::magic;

namespace {

constexpr int stream_timeout_ms = 3000;
constexpr std::size_t strangers = 64;  // connections beyond the peers' that may not have brought their proof

// Length of the address, 0 if the text is none.
socklen_t parse(const std::string& host, std::uint16_t port, sockaddr_storage& address) {
  auto v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return sizeof *v4;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return sizeof *v6;
  }
  return 0;
}

// Sends at once, and again soon: the kernel doubles the time between its tries, so that after an outage of a second and
// a half the next one comes when a peer counts as silent. Kernels before 6.15 know the second of these options alone.
void prepare(int fd) {
  constexpr int rto_max_ms = 44;  // TCP_RTO_MAX_MS, of headers to come
  int on = 1, longest_ms = 1000;  // the least that the kernel takes
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, rto_max_ms, &longest_ms, sizeof longest_ms);
}

template <class T>
Sending raw(const T& value) {
  Sending sending;
  sending.own.assign(reinterpret_cast<const char*>(&value), sizeof value);
  sending.head_bytes = 0;
  sending.payload_bytes = sizeof value;
  return sending;
}

}  // namespace

void TcpWire::connect(int peer) {
  auto& link = links_[peer];
  if (link.any() || link.lost || link.left || leaving_) return;
  link.connecting = dial(peer, 0);
}

// nullptr where that failed at once, as where a further stream finds no descriptor: the pair has others. Without one
// for its first connection this throws.
Connection* TcpWire::dial(int peer, std::uint32_t stream) {
  auto& where = options_.peers[peer];
  sockaddr_storage address{};
  auto length = parse(where.host, where.port, address);
  if (length == 0) {
    lose(peer, "has no address: '" + where.host + "'");
    return nullptr;
  }
  auto c = std::make_unique<Connection>();
  c->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c->fd < 0) {
    int error = errno;
    if (stream) return nullptr;
    throw std::system_error(error, std::generic_category(), "cannot make a socket" + limit_behind(error));
  }
  c->peer = peer;
  c->stream = stream;
  c->outgoing = true;
  prepare(c->fd);
  if (stream) setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stream_timeout_ms, sizeof stream_timeout_ms);
  auto& made = *connections_.emplace_back(std::move(c));
  made.writes = true;
  epoll_event event{EPOLLIN | EPOLLOUT, {&made}};
  epoll_ctl(events_.fd(), EPOLL_CTL_ADD, made.fd, &event);
  made.queue.push_back(raw(Hello{magic, options_.group, rank_, peer, stream, 0, where.to_it}));
  if (::connect(made.fd, reinterpret_cast<sockaddr*>(&address), length) == 0 || errno == EINPROGRESS) return &made;
  auto why = std::string("cannot be connected to: ") + std::strerror(errno);
  discard(made);
  if (!stream) lose(peer, why);
  return nullptr;
}

void TcpWire::accept_all() {
  for (std::size_t turn = 0; turn < strangers; turn++) {  // epoll asks again where there are more
    int fd = accept4(options_.listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {  // until the next tick: the listener stays readable
      full_ = true;
      listen(EPOLL_CTL_DEL);
    }
    if (fd < 0) break;
    prepare(fd);
    auto c = std::make_unique<Connection>();
    c->fd = fd;
    auto& made = *connections_.emplace_back(std::move(c));
    epoll_event event{EPOLLIN, {&made}};
    epoll_ctl(events_.fd(), EPOLL_CTL_ADD, fd, &event);
  }
  make_room(options_.peers.size() + strangers);
}

// Closes the oldest of too many accepted connections that have not brought their proof, so that strangers do not use up
// the descriptors.
void TcpWire::make_room(std::size_t most) {
  auto unknown = [](auto& c) { return c->peer < 0 && !c->dead; };
  for (auto n = static_cast<std::size_t>(std::ranges::count_if(connections_, unknown)); n > most; n--) {
    auto& oldest = **std::ranges::find_if(connections_, unknown);
    read(oldest);  // it may be there by now
    if (oldest.peer < 0) discard(oldest);
  }
}

// The first bytes of the other side have come. False: the connection is at its end.
bool TcpWire::greet(Connection& c) {
  return c.outgoing ? answered(c) : hello(c);
}

bool TcpWire::answered(Connection& c) {
  Answer answer;
  std::memcpy(&answer, c.head.data(), sizeof answer);
  auto& link = links_[c.peer];
  bool known = answer.word == Answer::Word::welcome || (answer.word == Answer::Word::crossed && c.stream == 0);
  if (!known || !same(answer.proof, options_.peers[c.peer].answer_from_it)) {
    fail(c, known ? "answered without a proof that it is of this job" : "answered in another protocol");
    return false;
  }
  if (answer.word == Answer::Word::crossed) {  // the peer is the lower rank, and connects as well
    link.connecting = nullptr;
    link.crossed_ns = now_ns();
    discard(c);
    return false;
  }
  c.greeted = true;
  if (c.stream)
    link.streams->sending[c.stream] = &c;
  else
    adopt(c);
  return !c.dead;
}

// Whether the other side is who it has to be. Somebody else's connection is closed without an answer; it gets no proof.
bool TcpWire::hello(Connection& c) {
  Hello hello{};
  std::memcpy(&hello, c.head.data(), sizeof hello);
  auto known = hello.magic == magic && hello.group == options_.group && hello.to == rank_ && hello.from >= 0 &&
               hello.from < static_cast<int>(options_.peers.size()) && hello.from != rank_ &&
               !options_.peers[hello.from].host.empty();
  bool proved = known && same(hello.proof, options_.peers[hello.from].from_it);
  auto link = proved && !links_[hello.from].lost ? &links_[hello.from] : nullptr;  // who is lost stays so
  if (link && hello.stream) {  // beside a connection, and none twice
    if (!link->streams) link->streams = std::make_unique<Streams>();
    if (!link->connection || hello.stream >= Streams::most || link->streams->receiving[hello.stream]) link = nullptr;
  }
  if (!link) {
    discard(c);
    return false;
  }
  c.stream = hello.stream;
  if (!c.stream && (link->connection || (link->connecting && rank_ < hello.from))) {
    Answer crossed{Answer::Word::crossed, options_.peers[hello.from].answer_to_it};
    ::send(c.fd, &crossed, sizeof crossed, MSG_NOSIGNAL | MSG_DONTWAIT);
    discard(c);
    return false;
  }
  c.peer = hello.from;
  c.greeted = true;
  c.queue.push_back(raw(Answer{Answer::Word::welcome, options_.peers[c.peer].answer_to_it}));
  if (c.stream) {
    link->streams->receiving[c.stream] = &c;
    write(c);
  } else {
    adopt(c);
  }
  return !c.dead;
}

// The pair's connection is there: what was to be sent waits for nothing else.
void TcpWire::adopt(Connection& c) {
  auto& link = links_[c.peer];
  if (auto ours = std::exchange(link.connecting, nullptr); ours && ours != &c) discard(*ours);
  link.connection = &c;
  link.crossed_ns = 0;
  c.queue.insert(c.queue.end(), std::make_move_iterator(link.waiting.begin()),
                 std::make_move_iterator(link.waiting.end()));
  link.waiting.clear();
  write(c);
}

}  // namespace ringtree
