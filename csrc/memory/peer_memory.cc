#include "memory/peer_memory.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "kernels/copies.h"
#include "memory/own_word.h"

namespace ringtree {

namespace {

OwnWord& own_word() {
  static OwnWord word;
  return word;
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
    bits = static_cast<std::uint64_t>(now_ns()) * 0x9e3779b97f4a7c15 ^ static_cast<std::uint64_t>(getpid());
  return bits | 1;  // never 0, which is what a segment holds at first
}

bool permitted() {
  int scope = 0;  // 1: PR_SET_PTRACER permits others; above, no setting does
  if (auto file = std::fopen("/proc/sys/kernel/yama/ptrace_scope", "re")) {
    if (std::fscanf(file, "%d", &scope) != 1) scope = 0;
    std::fclose(file);
  }
  return scope <= 1;
}

// The slope between a short read and a long one, the quickest of some each: a system call alone takes as long as pages.
// From page to page: read() has the kernel copy to no place where that is slower.
double measured_Bps() {
  constexpr std::size_t page = Mapping::page, least = 4 * page, most = 16 * page;
  constexpr int times = 4;
  std::vector<std::byte> memory(2 * most + page, std::byte{1});
  auto from = memory.data() + -reinterpret_cast<std::uintptr_t>(memory.data()) % page, to = from + most;
  std::int64_t quickest_ns[2] = {INT64_MAX, INT64_MAX};
  for (int turn = 0; turn < times; turn++) {
    for (bool longer : {false, true}) {
      std::size_t nbytes = longer ? most : least;
      iovec there{from, nbytes}, here{to, nbytes};
      auto began_ns = now_ns();
      if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(nbytes)) return 0;
      quickest_ns[longer] = std::min(quickest_ns[longer], now_ns() - began_ns);
    }
  }
  auto took_ns = std::max<std::int64_t>(quickest_ns[1] - quickest_ns[0], 1);
  return static_cast<double>(most - least) * 1e9 / static_cast<double>(took_ns);
}

}  // namespace

PeerMemory::PeerMemory(Segment& segment, int rank, std::size_t least_bytes)
    : segment_(segment), rank_(rank), least_bytes_(least_bytes), tried_(segment.layout().ranks, false) {
  auto& me = segment.member(rank);
  me.word = own_word().get(random_bits);
  me.word_at = own_word().at();
}

double PeerMemory::reads_Bps() {
  static const double found = permitted() ? measured_Bps() : 0.0;
  return found;
}

// By a read of the first and the last byte from this process itself.
bool PeerMemory::is_readable(const std::byte* at, std::size_t nbytes) {
  std::pair asked{at, nbytes};
  if (std::ranges::find(seen_, asked) != seen_.end()) return true;
  std::byte ends[2];
  iovec here{ends, sizeof ends},
      there[] = {{const_cast<std::byte*>(at), 1}, {const_cast<std::byte*>(at) + nbytes - 1, 1}};
  if (process_vm_readv(getpid(), &here, 1, there, 2, 0) != sizeof ends) return false;
  seen_[next_++ % seen_.size()] = asked;
  return true;
}

bool PeerMemory::offer() {
  if (offered_) return false;
  offered_ = true;
  // Where Yama lets only ancestors attach, this lets all that descend from the process that started the ranks.
  prctl(PR_SET_PTRACER, getppid(), 0, 0, 0);
  for (int peer = 0; peer < segment_.layout().ranks; peer++) {
    if (peer == rank_) continue;
    segment_.attached(rank_, peer).store(offered, std::memory_order_release);  // the word is written
    segment_.member(peer).offers.fetch_add(1, std::memory_order_release);      // pairs with answer()
  }
  return true;
}

bool PeerMemory::try_reading(std::uint32_t offers) {
  for (int peer = 0; peer < segment_.layout().ranks; peer++) {
    if (peer == rank_ || tried_[peer] || state(peer, rank_) != offered) continue;
    std::byte none[1];
    bool can = least_bytes_ && read(peer, segment_.member(peer).word_at, none, sizeof none) == 0;
    segment_.attached(peer, rank_).store(can ? readable : refused, std::memory_order_release);
    tried_[peer] = true;
  }
  answered_ = offers;
  return true;
}

// Where the kernel would copy slowly (see is_just_behind), it fills memory of the source's place in a page, block by
// block, and a copy within this core's cache does the rest.
int PeerMemory::read(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes) {
  constexpr std::size_t page = Mapping::page, least = page, block = 8 * page;
  if (nbytes < least || !is_just_behind(to, reinterpret_cast<const std::byte*>(from)))
    return read_at_once(peer, from, to, nbytes);
  passing_.resize(block + 2 * page);
  auto begin = reinterpret_cast<std::uintptr_t>(passing_.data());
  auto passing = passing_.data() + (from - begin) % page;
  for (std::size_t done = 0; done < nbytes; done += block) {
    auto part = std::min(block, nbytes - done);
    if (auto error = read_at_once(peer, from + done, passing, part)) return error;
    copy_bytes(to + done, passing, part);
  }
  return 0;
}

int PeerMemory::read_at_once(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes) const {
  auto& member = segment_.member(peer);
  for (std::size_t done = 0; done < nbytes;) {
    std::uint64_t word = 0;
    iovec here[] = {{&word, sizeof word}, {to + done, nbytes - done}};
    iovec there[] = {{reinterpret_cast<void*>(member.word_at), sizeof word},
                     {reinterpret_cast<void*>(from + done), nbytes - done}};
    auto got = process_vm_readv(member.process, here, 2, there, 2, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (word != member.word) return ESRCH;
    if (got <= static_cast<ssize_t>(sizeof word)) return EFAULT;
    done += static_cast<std::size_t>(got) - sizeof word;
  }
  return 0;
}

int PeerMemory::write(int peer, const std::byte* from, std::uintptr_t to, std::size_t nbytes) const {
  std::byte none[1];
  auto& member = segment_.member(peer);
  if (auto error = read_at_once(peer, member.word_at, none, sizeof none)) return error;
  for (std::size_t done = 0; done < nbytes;) {
    iovec here{const_cast<std::byte*>(from) + done, nbytes - done},
        there{reinterpret_cast<void*>(to + done), nbytes - done};
    auto put = process_vm_writev(member.process, &here, 1, &there, 1, 0);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    if (put == 0) return EFAULT;
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

}  // namespace ringtree
