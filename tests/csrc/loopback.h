// Sockets that listen on the loopback, for tests of what joins hosts.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>

namespace loopback {

inline sockaddr_in address(std::uint16_t port = 0) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  return at;
}

// A socket at a port that the kernel chooses.
inline int listening(std::uint16_t& port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in at = address();
  socklen_t length = sizeof at;
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), length) != 0 || listen(fd, 16) != 0) std::abort();
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length);
  port = ntohs(at.sin_port);
  return fd;
}

}  // namespace loopback
