// Shared memory in this process: reserved, and in large pages where the kernel can.
#pragma once

#include <cstddef>

namespace ringtree {

class Mapping {
 public:
  // Maps `nbytes` of a memfd. The pages of the first `reserved` are reserved, so that a later write never fails; the
  // rest must be prefaulted before it is used. Throws std::system_error.
  Mapping(int fd, std::size_t nbytes, std::size_t reserved);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;

  // Has the first `nbytes` lie in large pages, where the kernel can. Of ranks that map the same memory at the same
  // time, each begins with another `share` of `shares`.
  void ask_for_large_pages(std::size_t nbytes, int share, int shares);

  // Makes the pages of these bytes exist. Throws std::system_error where there is no room, so that no write fails.
  static void prefault(std::byte* begin, std::size_t nbytes);
  // The same in large pages, as far as they lie in these bytes and the kernel has them.
  static void prefault_large(std::byte* begin, std::size_t nbytes);
  // Whether the kernel can prefault() (Linux 5.14).
  static bool can_prefault();

  std::byte* base() const { return base_; }
  std::size_t nbytes() const { return nbytes_; }

  static constexpr std::size_t page = 4096, large_page = std::size_t(2) << 20;

 private:
  std::byte* base_;
  std::size_t nbytes_;
};

}  // namespace ringtree
