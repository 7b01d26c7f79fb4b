// Whose memory is read, and what comes of a process that is not the one it was: the ranks are threads, which the kernel
// reads as it reads other processes.
#include "memory/peer_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using ringtree::PeerMemory;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "peer_memory: %s\n", what);
  std::abort();
}

struct Pair {
  ringtree::Layout layout{2, 2, 1024};
  void* at = mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ringtree::Segment segment{at, layout};
  PeerMemory sender, receiver;

  Pair(std::size_t sender_least, std::size_t receiver_least)
      : sender(segment, 0, sender_least), receiver(segment, 1, receiver_least) {
    for (int rank = 0; rank < 2; rank++) segment.member(rank).process = getpid();
  }
  ~Pair() { munmap(at, layout.total); }

  void agree() {
    expect(sender.offer() && !sender.offer(), "an offer is made once");
    expect(!sender.answered(1) && !sender.read_by(1), "nobody has answered yet");
    expect(receiver.answer() && !receiver.answer(), "an offer is answered once");
    expect(sender.answered(1), "the answer is there");
  }
};

void reads_what_was_offered() {
  Pair pair(1, 1);
  pair.agree();
  expect(pair.sender.read_by(1), "the kernel reads a thread of this process");
  std::vector<std::byte> from(10'000, std::byte{7}), to(from.size());
  auto address = reinterpret_cast<std::uintptr_t>(from.data());
  expect(pair.receiver.read(0, address, to.data(), to.size()) == 0 && to == from, "all bytes are read");
}

// Such reads go through memory of this process, block by block.
void reads_to_just_behind() {
  Pair pair(1, 1);
  pair.agree();
  constexpr std::size_t page = 4096, most = 20 * page;
  auto map = [] {
    return static_cast<std::byte*>(
        mmap(nullptr, most + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  auto sources = map(), targets = map();
  for (std::size_t k = 0; k < most + page; k++) sources[k] = static_cast<std::byte>(k * 7 + k / 251);
  for (std::size_t nbytes : {page - 1, page, 8 * page, 8 * page + 1, most}) {
    for (std::size_t behind : {1, 16, 31}) {
      std::memset(targets, 0x5a, most + 2 * page);
      auto from = sources + 40, to = targets + 40 + behind;
      expect(pair.receiver.read(0, reinterpret_cast<std::uintptr_t>(from), to, nbytes) == 0, "a read to just behind");
      expect(!std::memcmp(to, from, nbytes), "all bytes are read to just behind");
      expect(to[-1] == std::byte{0x5a} && to[nbytes] == std::byte{0x5a}, "and no others");
    }
  }
  munmap(sources + most, 2 * page);
  auto from = reinterpret_cast<std::uintptr_t>(sources) + page;
  expect(pair.receiver.read(0, from, targets + 16, most) == EFAULT, "the last page is gone");
  munmap(sources, most);
  munmap(targets, most + 2 * page);
}

void writes_where_it_was_asked_to() {
  Pair pair(1, 1);
  pair.agree();
  std::vector<std::byte> from(10'000, std::byte{7}), to(from.size() + 1);
  auto address = reinterpret_cast<std::uintptr_t>(to.data());
  expect(pair.sender.write(1, from.data(), address, from.size()) == 0, "the kernel writes to a thread of this process");
  expect(!std::memcmp(to.data(), from.data(), from.size()) && to.back() == std::byte{0}, "all bytes, and no others");
  constexpr std::size_t page = 4096;
  auto at = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(pair.sender.write(1, from.data(), reinterpret_cast<std::uintptr_t>(at), page) == EFAULT,
         "not what is constant");
  munmap(at, page);
  pair.segment.member(1).word ^= 2;
  to[0] = std::byte{0};
  expect(pair.sender.write(1, from.data(), address, from.size()) == ESRCH, "another word is another process");
  expect(to[0] == std::byte{0}, "in which nothing is written");
}

void refuses_where_it_was_not_asked_for() {
  Pair pair(1, 0);
  pair.agree();
  expect(!pair.sender.read_by(1), "a rank that reads nothing refuses");
}

void another_process_is_no_peer() {
  Pair pair(1, 1);
  pair.agree();
  pair.segment.member(0).word ^= 2;
  std::byte from[8]{}, to[8]{std::byte{1}};
  auto address = reinterpret_cast<std::uintptr_t>(from);
  expect(pair.receiver.read(0, address, to, sizeof to) == ESRCH, "another word is another process");
}

// As it would be if it got the number that its parent had.
void a_forked_child_is_no_peer() {
  Pair pair(1, 1);
  pair.agree();
  int ended[2];
  expect(pipe(ended) == 0, "a pipe");
  auto child = fork();
  if (child == 0) {
    PeerMemory own(pair.segment, 1, 1);
    close(ended[1]);
    std::byte none;
    _exit(static_cast<int>(read(ended[0], &none, sizeof none)));
  }
  close(ended[0]);
  auto& parents = pair.segment.member(0);
  auto& childs = pair.segment.member(1);
  while (childs.word_at == 0 || childs.word == 0) usleep(100);
  parents.process = child;
  std::byte from[8]{}, to[8]{std::byte{1}};
  auto error = pair.receiver.read(0, reinterpret_cast<std::uintptr_t>(from), to, sizeof to);
  close(ended[1]);
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends");
  expect(error == ESRCH, "a forked child has another word");
}

void unmapped_memory_is_an_error() {
  Pair pair(1, 1);
  pair.agree();
  constexpr std::size_t page = 4096;
  auto at = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<std::byte> to(2 * page);
  auto address = reinterpret_cast<std::uintptr_t>(at);
  munmap(static_cast<std::byte*>(at) + page, page);
  expect(pair.receiver.read(0, address, to.data(), page) == 0, "one page is there");
  expect(pair.receiver.read(0, address, to.data(), 2 * page) == EFAULT, "half of it is gone");
  expect(pair.receiver.read(0, address + page, to.data(), page) == EFAULT, "all of it is gone");
  munmap(at, page);
}

}  // namespace

int main() {
  if (!PeerMemory::reads_Bps()) {
    std::puts("peer_memory: not run, the kernel allows no such reads here");
    return 0;
  }
  reads_what_was_offered();
  reads_to_just_behind();
  writes_where_it_was_asked_to();
  refuses_where_it_was_not_asked_for();
  another_process_is_no_peer();
  a_forked_child_is_no_peer();
  unmapped_memory_is_an_error();
  std::puts("peer memory: all right");
}
