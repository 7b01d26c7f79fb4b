// A descriptor that is closed at the end.
#pragma once

#include <unistd.h>

#include <utility>

namespace ringtree {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}  // -1: none
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace ringtree
