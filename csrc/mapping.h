// Shared memory in this process: reserved, and in large pages where the kernel can.
#pragma once

#include <cstddef>

namespace ringtree {

class Mapping {
 public:
  // Maps `nbytes` of a memfd whose pages it reserves first, so that a later write never fails. Of those who map the
  // same memory at the same time, each begins with another `share` of `shares`. Throws std::system_error.
  Mapping(int fd, std::size_t nbytes, int share, int shares);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;

  std::byte* base() const { return base_; }
  std::size_t nbytes() const { return nbytes_; }

  static constexpr std::size_t large_page = std::size_t(2) << 20;

 private:
  std::byte* base_;
  std::size_t nbytes_;
};

}  // namespace ringtree
