// A group that one thread closes while another looks how its members are.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "group/group.h"

namespace {

using ringtree::Group;

constexpr int ranks = 2, slots = 2, turns = 200;
constexpr std::size_t slot_bytes = 1024;

// Watched as ranks of two processes are, by locks of the file.
Group::Options options() {
  ringtree::Endpoint::Options endpoint;
  endpoint.timeout_s = 5;
  return {slots, slot_bytes, false, endpoint};
}

void closes_beside_one_who_looks() {
  int fd = memfd_create("group", MFD_CLOEXEC);
  if (ftruncate(fd, static_cast<off_t>(ringtree::Layout(ranks, slots, slot_bytes).total)) != 0) std::abort();
  Group here(ringtree::FileDescriptor(dup(fd)), 0, ranks, options());
  Group there(ringtree::FileDescriptor(dup(fd)), 1, ranks, options());
  std::atomic<bool> looked = false, closed = false;
  std::thread looks([&] {
    while (!closed) {
      for (auto& peer : here.peers())
        if (!peer.state) std::abort();
      looked = true;
    }
  });
  while (!looked) sched_yield();
  here.close();
  closed = true;
  looks.join();
  there.close();
  close(fd);
}

}  // namespace

int main() {
  for (int turn = 0; turn < turns; turn++) closes_beside_one_who_looks();
  std::printf("closing: %d groups were closed beside one who looked\n", turns);
}
