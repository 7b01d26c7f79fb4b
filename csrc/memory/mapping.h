// Shared memory in this process: reserved, and in large pages where the kernel can.
#pragma once

#include <cstddef>
#include <vector>

namespace ringtree {

// Parts of a memory, one behind the other, each written by one rank. `nodes`: the NUMA node of each rank, -1 where it
// is unknown; empty where all are on one.
struct Parts {
  std::size_t begin, nbytes;  // of the first; of each
  int ranks;
  const std::vector<int>& nodes;

  // Whether no two ranks that write these bytes are known to be on different nodes. What is before the first part is
  // its rank's, what is behind the last one that rank's.
  bool one_node(std::size_t from, std::size_t to) const;
};

class Mapping {
 public:
  // Maps `nbytes` of a memfd. The pages of the first `reserved` are reserved, so that a later write never fails; the
  // rest must be prefaulted before it is used. Throws std::system_error.
  Mapping(int fd, std::size_t nbytes, std::size_t reserved);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;

  // Makes the bytes of this rank's part exist, on its NUMA node, so that a later write never fails; and has them lie in
  // large pages where the kernel can. A large page that other parts are in, too, must be of ranks on one node.
  // Throws std::system_error where there is no room.
  void reserve(int fd, const Parts& parts, int rank);

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
