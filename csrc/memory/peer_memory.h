// The private memory of other ranks' processes, read without their help (cross-memory attach): a message is one copy
// then, where staging takes two.
//
// The kernel decides who may read whom: one user, Yama's ptrace_scope, a container's filter of system calls. So each
// pair finds out, at its first call that would use it: the sender offers, the receiver tries and answers. Where the
// kernel refuses, messages are staged.
//
// A process id proves nothing, for another process may have it by now. So every read takes along a random word of the
// sender's process, which the sender has written into the segment, and every write comes after such a read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/segment.h"

namespace ringtree {

class PeerMemory {
 public:
  // `least_bytes`: of a message that is worth a system call; 0: this rank reads no memory, and lets nobody read its.
  PeerMemory(Segment& segment, int rank, std::size_t least_bytes);

  // The rate at which the kernel reads pages of 4 KiB that are in this core's caches, found by some microseconds of
  // reads from this process itself, once; 0 where it may not make such reads, or Yama would not let the ranks of a job.
  // The copy is little of it: the kernel finds and pins each page.
  static double reads_Bps();

  std::size_t least_bytes() const { return least_bytes_; }

  // Offers this rank's memory to all, once; whether it was this time.
  bool offer();
  // Answers offers that have come; whether there were any. A call does so when it begins, and while it waits.
  bool answer() {
    auto offers = segment_.member(rank_).offers.load(std::memory_order_acquire);
    return offers != answered_ && try_reading(offers);
  }

  // Whether peers may read these bytes of this rank: the kernel lets nobody read a device's pages, nor secret ones.
  bool is_readable(const std::byte* at, std::size_t nbytes);

  // Whether `peer` has answered, and whether it reads this rank's memory.
  bool answered(int peer) const { return state(rank_, peer) >= readable; }
  bool read_by(int peer) const { return state(rank_, peer) == readable; }

  // Reads from an address of a peer whose offer was answered. 0, or the kernel's error: ESRCH where the peer's process
  // is gone, EFAULT where it has no such memory.
  int read(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes);
  // Writes to an address that a peer has sent for this. As read(), or what the kernel says where it allows reads alone.
  int write(int peer, const std::byte* from, std::uintptr_t to, std::size_t nbytes) const;

 private:
  enum State : std::uint8_t { unknown, offered, readable, refused };

  int read_at_once(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes) const;

  std::uint8_t state(int from, int to) const { return segment_.attached(from, to).load(std::memory_order_acquire); }
  bool try_reading(std::uint32_t offers);

  Segment& segment_;
  int rank_;
  std::size_t least_bytes_;
  bool offered_ = false;
  std::uint32_t answered_ = 0;                                      // offers that this rank has seen to
  std::vector<std::uint8_t> tried_;                                 // by sender
  std::vector<std::byte> passing_;                                  // of reads whose target is just behind the source
  std::array<std::pair<const std::byte*, std::size_t>, 8> seen_{};  // bytes that were readable, the oldest at `next_`
  std::size_t next_ = 0;
};

}  // namespace ringtree
