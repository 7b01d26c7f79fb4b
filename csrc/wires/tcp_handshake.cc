// How connections of the TCP wire are made and accepted, and how both sides prove who they are.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "wires/tcp.h"

namespace ringtree {

using tcp::Connection, tcp::Hello, tcp::Sending, tcp::magic;

void TcpWire::connect(int peer) {
  if (to_[peer] || lost_[peer] || left_[peer]) return;
  auto& where = options_.peers[peer];
  sockaddr_storage address{};
  socklen_t length;
  auto v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, where.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(where.port);
    length = sizeof *v4;
  } else if (inet_pton(AF_INET6, where.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(where.port);
    length = sizeof *v6;
  } else {
    lost_[peer] = true;
    return sink_.lost(peer, "has no address: '" + where.host + "'");
  }
  auto c = std::make_unique<Connection>();
  c->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c->fd < 0) throw std::system_error(errno, std::generic_category(), "cannot make a socket");
  c->peer = peer;
  c->outgoing = true;
  int on = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto& made = *connections_.emplace_back(std::move(c));
  to_[peer] = &made;
  epoll_event event{EPOLLIN | EPOLLOUT, {&made}};
  epoll_ctl(events_, EPOLL_CTL_ADD, made.fd, &event);
  made.writes = true;
  Hello hello{magic, options_.group, rank_, peer, where.to_it};
  Sending first;
  first.framed = false;
  first.own.assign(reinterpret_cast<const char*>(&hello), sizeof hello);
  made.queue.push_back(std::move(first));
  if (::connect(made.fd, reinterpret_cast<sockaddr*>(&address), length) != 0 && errno != EINPROGRESS)
    fail(made, std::string("cannot be connected to: ") + std::strerror(errno));
}

void TcpWire::accept_all() {
  for (;;) {
    int fd = accept4(options_.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {  // until the next tick: the listener stays readable
      full_ = true;
      epoll_ctl(events_, EPOLL_CTL_DEL, options_.listener, nullptr);
    }
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto c = std::make_unique<Connection>();
    c->fd = fd;
    auto& made = *connections_.emplace_back(std::move(c));
    epoll_event event{EPOLLIN, {&made}};
    epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event);
  }
}

// Whether the other side is who it has to be. Somebody else's connection is closed without an answer.
bool TcpWire::greet(Connection& c, const Hello& hello) {
  if (c.outgoing) {
    c.greeted = hello.magic == magic;
    if (!c.greeted) fail(c, "answered in another protocol");
    return c.greeted;
  }
  auto known = hello.magic == magic && hello.group == options_.group && hello.to == rank_ && hello.from >= 0 &&
               hello.from < static_cast<int>(options_.peers.size()) && hello.from != rank_ && !from_[hello.from];
  if (!known || !same(hello.proof, options_.peers[hello.from].from_it)) {
    fail(c, "");
    return false;
  }
  c.peer = hello.from;
  c.greeted = true;
  from_[c.peer] = &c;
  Sending welcome;
  welcome.framed = false;
  welcome.own.assign(reinterpret_cast<const char*>(&magic), sizeof magic);
  push(c, std::move(welcome));
  return !c.dead;
}

}  // namespace ringtree
