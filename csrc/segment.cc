#include "segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace ringtree {

namespace {

constexpr std::uint64_t magic = 0x72696e6774726565;  // "ringtree"
constexpr std::size_t page = 4096;
constexpr std::size_t pipes_budget = std::size_t(32)
                                     << 20;  // all pairs' point-to-point staging, until pieces are least

std::size_t rounded(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

Layout::Layout(int ranks, int slots, std::size_t slot_bytes)
    : ranks(ranks), slots(slots), slot_bytes(rounded(slot_bytes, cache_line)) {
  if (ranks < 1 || ranks > (1 << 17)) throw std::invalid_argument("a group has 1 to 131072 ranks");
  if (slots < 1 || slots > 4096) throw std::invalid_argument("a rank has 1 to 4096 staging slots");
  if (slot_bytes < 1024 || slot_bytes > (std::size_t(1) << 29))
    throw std::invalid_argument("a staging slot has 1 KiB to 512 MiB");
  depth = std::bit_ceil(std::uint64_t(std::clamp(slots, 8, 64)));
  std::size_t pairs = std::size_t(ranks) * ranks;
  piece_bytes = rounded(std::clamp(pipes_budget / (pairs * pieces), page, 16 * page), page);
  lane_bytes = cache_line + depth * sizeof(Notice);
  pipe_bytes = cache_line + pieces * (sizeof(Piece) + piece_bytes);
  members = rounded(sizeof(Header), page);
  lanes = rounded(members + ranks * sizeof(Member), page);
  pipes = rounded(lanes + pairs * lane_bytes, page);
  outboxes = rounded(pipes + pairs * pipe_bytes, page);
  total = rounded(outboxes + std::size_t(ranks) * slots * this->slot_bytes, page);
}

std::uint64_t Layout::shape() const {
  return (std::uint64_t(ranks) << 44) | (std::uint64_t(slots) << 32) | slot_bytes;
}

Segment::Segment(int fd, const Layout& layout) : layout_(layout), mapped_(true) {
  // Reserved here, or a machine that runs out of memory answers with SIGBUS in the middle of a call.
  if (int failed = posix_fallocate(fd, 0, static_cast<off_t>(layout.total)))
    throw std::system_error(failed, std::generic_category(),
                            "cannot reserve " + std::to_string(layout.total) + " bytes of shared memory");
  void* at = mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(),
                            "cannot map " + std::to_string(layout.total) + " bytes of shared memory");
  base_ = static_cast<std::byte*>(at);
  check_shape();
}

Segment::Segment(void* memory, const Layout& layout)
    : layout_(layout), base_(static_cast<std::byte*>(memory)), mapped_(false) {
  check_shape();
}

Segment::~Segment() {
  if (mapped_) munmap(base_, layout_.total);
}

// All ranks must have computed the same layout: the first writes it down, the others compare.
void Segment::check_shape() {
  std::uint64_t none = 0, shape = layout_.shape();
  auto& header = this->header();
  if (!header.shape.compare_exchange_strong(none, shape, std::memory_order_relaxed) && none != shape) {
    if (mapped_) munmap(base_, layout_.total);
    throw std::invalid_argument("the ranks of the group disagree on ranks, slots or slot_bytes");
  }
  none = 0;
  if (!header.magic.compare_exchange_strong(none, magic, std::memory_order_relaxed) && none != magic) {
    if (mapped_) munmap(base_, layout_.total);
    throw std::invalid_argument("the file descriptor is not a ringtree segment (expected zeroed memory)");
  }
}

}  // namespace ringtree
