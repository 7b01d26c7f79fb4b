// The long waits of a host's ranks, written down where others find them, which are the ranks themselves (stragglers,
// and chains of waits) and other processes of the user: a page for each rank behind all else in its world's memory,
// also for waits in groups made from the world.
//
// Written and read through the file: nothing is mapped or reserved, and where memory is full, a wait is not written
// down.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringtree {

struct WaitRecord {
  std::uint64_t number;   // of this writing, twice: where they differ, it is not complete
  std::int64_t since_ns;  // when it began, by the monotonic clock; 0: there is no wait here
  std::int64_t deadline_ns;
  std::int64_t gave_up_ns;  // when it ended in vain; 0: it goes on
  std::uint64_t memory;     // of the group, by its number for the kernel
  std::int32_t peer;        // that is waited for, by its rank in the world; -1: any
  std::int32_t thread;      // the kernel's number of the one that waits
  char where[208];          // as in "all_reduce, call 17"
  char group[248];          // the members of a group made from the world; empty in the world itself
  std::uint64_t again;
};
static_assert(sizeof(WaitRecord) == 512);

class LongWaits {
 public:
  static constexpr std::size_t page = 4096, records = page / sizeof(WaitRecord);
  static constexpr std::int64_t long_ns = 50'000'000;  // waits longer than this are written down

  // Of `rank`, in a file that the caller keeps open; rank 0's page begins at `first`.
  LongWaits(int fd, std::size_t first, int rank) : fd_(fd), first_(first), rank_(rank) {}

  // Writes a wait down; its place, or -1 where there was no room. `memory` as in WaitRecord.
  int begin(std::int64_t since_ns, std::int64_t deadline_ns, int peer, const std::string& where,
            const std::string& group, std::uint64_t memory) noexcept;
  void end(int place) noexcept;
  // It ended in vain: that can be read until a later wait takes the place.
  void give_up(int place, std::int64_t now_ns) noexcept;

  // Writes down a wait of a `rank` of another host, as it was at `gave_up_ns`: it can be read as one that gave up then.
  void note_elsewhere(int rank, WaitRecord record) noexcept;

  // The waits of a rank of this host that go on; none of one elsewhere.
  std::vector<WaitRecord> of(int rank) const { return read(fd_, first_ + rank * page); }
  // The wait of its that gave up last.
  std::optional<WaitRecord> given_up(int rank) const;
  // Those that go on, in a page.
  static std::vector<WaitRecord> read(int fd, std::size_t at);

 private:
  bool write(int rank, int place, WaitRecord& record) noexcept;
  off_t at(int rank, int place) const { return static_cast<off_t>(first_ + rank * page + place * sizeof(WaitRecord)); }

  int fd_;
  std::size_t first_;
  int rank_;
  std::array<std::atomic<bool>, records> taken_{};
  std::atomic<unsigned> next_ = 0;  // where to look for a free one
  std::atomic<std::uint64_t> written_ = 0;
};

}  // namespace ringtree
