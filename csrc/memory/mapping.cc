#include "memory/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "memory/limits.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace ringtree {

namespace {

[[noreturn]] void fail(int error, const char* what, std::size_t nbytes) {
  throw std::system_error(
      error, std::generic_category(),
      std::string("cannot ") + what + " " + std::to_string(nbytes) + " bytes of shared memory" + limit_behind(error));
}

// Addresses for `nbytes` that begin at a large page's boundary.
std::byte* aligned_addresses(std::size_t nbytes) {
  auto room = nbytes + Mapping::large_page;
  void* found = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fail(errno, "find addresses for", nbytes);
  auto begin = reinterpret_cast<std::uintptr_t>(found);
  auto aligned = (begin + Mapping::large_page - 1) & ~(Mapping::large_page - 1);
  if (aligned > begin) munmap(found, aligned - begin);
  if (auto rest = begin + room - (aligned + nbytes)) munmap(reinterpret_cast<void*>(aligned + nbytes), rest);
  return reinterpret_cast<std::byte*>(aligned);
}

// In pieces, each again where a signal came: Linux before 6.10 gives a piece's pages back then, and a timer's signals
// would leave no time for all of them.
void allocate(int fd, std::size_t from, std::size_t nbytes) {
  constexpr std::size_t piece = std::size_t(4) << 20;
  for (std::size_t at = 0; at < nbytes; at += piece) {
    auto begin = static_cast<off_t>(from + at), length = static_cast<off_t>(std::min(piece, nbytes - at));
    int error = EINTR;
    while (error == EINTR) error = posix_fallocate(fd, begin, length);
    if (error) fail(error, "reserve", nbytes);
  }
}

}  // namespace

bool Parts::one_node(std::size_t from, std::size_t to) const {
  auto rank_at = [&](std::size_t at) {
    return static_cast<int>(std::min<std::size_t>(at < begin ? 0 : (at - begin) / nbytes, ranks - 1));
  };
  int found = -1;
  for (int rank = rank_at(from); rank <= rank_at(to - 1) && !nodes.empty(); rank++) {
    if (nodes[rank] < 0) continue;
    if (found >= 0 && nodes[rank] != found) return false;
    found = nodes[rank];
  }
  return true;
}

Mapping::Mapping(int fd, std::size_t nbytes, std::size_t reserved) : nbytes_(nbytes) {
  allocate(fd, 0, reserved);
  base_ = aligned_addresses(nbytes_);
  if (mmap(base_, nbytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    int error = errno;
    munmap(base_, nbytes_);
    fail(error, "map", nbytes_);
  }
}

void Mapping::reserve(int fd, const Parts& parts, int rank) {
  auto from = parts.begin + rank * parts.nbytes, to = from + parts.nbytes;
  // From memory that the caches do not hold, a stream in 4 KiB pages is several times slower here. Most
  // machines give shared memory none by themselves, but do so when asked. Where not, it goes without.
  // Each rank asks for the pages that its part is in, once there is a little of each: then they need not be copied.
  auto first = from / large_page * large_page;
  auto last = std::min((to + large_page - 1) / large_page, nbytes_ / large_page) * large_page;
  if (first < last && !parts.one_node(first, first + large_page)) first += large_page;
  if (first < last && !parts.one_node(last - large_page, last)) last -= large_page;
  for (auto at = first; at < last; at += large_page) allocate(fd, std::max(at, from), page);
  if (first < last) madvise(base_ + first, last - first, MADV_COLLAPSE);
  allocate(fd, from, parts.nbytes);
  if (can_prefault()) prefault(base_ + from, parts.nbytes);  // into this process's page table, too
}

void Mapping::prefault(std::byte* begin, std::size_t nbytes) {
  auto first = reinterpret_cast<std::uintptr_t>(begin) & ~(page - 1);
  auto end = reinterpret_cast<std::uintptr_t>(begin) + nbytes;
  if (madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_WRITE) != 0)
    fail(errno, "reserve", end - first);
}

void Mapping::prefault_large(std::byte* begin, std::size_t nbytes) {
  auto at = reinterpret_cast<std::uintptr_t>(begin);
  auto first = (at + large_page - 1) & ~(large_page - 1), end = (at + nbytes) & ~(large_page - 1);
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_COLLAPSE);
  prefault(begin, nbytes);
}

bool Mapping::can_prefault() {
  static const bool can = madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  return can;
}

Mapping::Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)), nbytes_(other.nbytes_) {}

Mapping::~Mapping() {
  if (base_) munmap(base_, nbytes_);
}

}  // namespace ringtree
