// Whether a rank's process has ended, as a rank sees it that can look, and one that has no descriptor left for that.
#include "health/process_watch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "no_descriptors.h"

namespace {

using ringtree::InheritedLiveness, ringtree::ProcessIdentity, ringtree::ProcessWatch;

constexpr int ranks = 2;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "process_watch: %s\n", what);
  std::abort();
}

// Rank 0, which looks, and rank 1: a child of its process, that has attached or not yet.
struct World {
  ringtree::Layout layout{ranks, 2, 1024};
  int fd = memfd_create("world", MFD_CLOEXEC);
  void* memory = (ftruncate(fd, static_cast<off_t>(layout.total)),
                  mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ringtree::Segment segment{memory, layout};
  ProcessIdentity* peer = static_cast<ProcessIdentity*>(
      mmap(nullptr, sizeof *peer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t child = -1;

  explicit World(bool attaches) {
    int begun[2];
    expect(pipe(begun) == 0, "a pipe");
    child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      *peer = ProcessIdentity::of_this();
      if (attaches) ProcessWatch(segment, members(1), 1);  // which ends: its lock is gone, and the process is there
      expect(write(begun[1], "", 1) == 1, "the parent hears of it");
      for (;;) pause();
    }
    char none;
    expect(read(begun[0], &none, 1) == 1, "the child has begun");
    for (int end : begun) close(end);
  }
  ~World() {
    munmap(peer, sizeof *peer);
    munmap(memory, layout.total);
    close(fd);
  }
  InheritedLiveness members(int rank) const {
    return InheritedLiveness::of_world(ringtree::FileDescriptor(dup(fd)), rank, ranks, layout.waits, true);
  }
  void end() const {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
};

void who_cannot_look_takes_nobody_for_ended() {
  for (bool attached : {true, false}) {
    World world(attached);
    auto members = world.members(0);
    members.processes = {ProcessIdentity::of_this(), *world.peer};
    ProcessWatch watch(world.segment, std::move(members), 0);
    expect(!watch.ended(1), "a process without its lock is there");
    {
      NoDescriptors none;
      expect(!watch.ended(1) && !watch.stopped(1), "nobody can look at the process, which is there");
      world.end();
      expect(!watch.ended(1), "nobody can look at the process, which has ended");
    }
    expect(watch.ended(1), "the process has ended");
  }
}

}  // namespace

int main() {
  who_cannot_look_takes_nobody_for_ended();
  std::puts("process_watch: who cannot look takes nobody for ended");
}
