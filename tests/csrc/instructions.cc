// The instructions of a call that need not wait, counted one by one: a figure that a busy machine does not change. A
// rank is traced (ptrace) through the call while the others, which are processes, stand still: they have sent what it
// needs.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "group/group.h"
#include "programs.h"

namespace {

using ringtree::Group;

struct Row {
  const char* name;
  programs::Program (*program)(int rank, int ranks);
  std::int64_t count;  // int32
  int op, ranks, most;
};
const int sum = static_cast<int>(ringtree::Op::sum);
// Some 15 % above what gcc 12 makes of it.
const Row rows[] = {
    {"all_reduce of 8 bytes", programs::one_shot, 2, sum, 2, 1400},
    {"all_reduce of 8 bytes", programs::one_shot, 2, sum, 4, 2180},
    {"all_reduce of 256 bytes", programs::one_shot, 64, sum, 2, 1900},
    {"barrier", programs::barrier, 0, -1, 2, 750},
    {"barrier", programs::barrier, 0, -1, 4, 1230},
};
constexpr int attempts = 40, most_ranks = 4;
constexpr long most_alone = 10'000, most_steps = 1'000'000;  // a rank that was stopped before it had sent must go on

struct Shared {
  std::atomic<int> calls[most_ranks], begun[most_ranks];  // that a rank may make, and that it has begun
  std::atomic<int> counting;
};

template <class T>
T* shared(std::size_t nbytes) {
  void* at = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<T*>(at);
}

// The life of rank `rank`: a call whenever it may.
[[noreturn]] void live(const Row& row, int rank, void* memory, Shared& with) {
  bool counted = rank == 0;
  if (counted && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
  ringtree::Endpoint::Options endpoint;
  endpoint.timeout_s = 60;
  Group group(memory, rank, row.ranks, Group::Options{row.ranks + 1, 4096, true, endpoint});
  ringtree::Hooks hooks;
  auto program = row.program(rank, row.ranks);
  const std::int64_t offset = 0;
  ringtree::Binding b;
  b.sizes = {&row.count, 1};
  b.input_offsets = b.output_offsets = {&offset, 1};
  b.window = std::max<std::int64_t>(row.count, 1);
  b.dtype = static_cast<int>(ringtree::Dtype::int32);
  b.op = row.op;
  b.count = row.count;
  b.collective = row.count ? "all_reduce" : "barrier";
  auto plan = group.prepare(program.encoded(), b);
  std::vector<int> x(row.count, rank + 1), found(row.count);
  auto in = reinterpret_cast<std::byte*>(x.data()), out = reinterpret_cast<std::byte*>(found.data());
  for (int call = 0; call < attempts; call++) {
    while (with.calls[rank].load() <= call) usleep(20);
    with.begun[rank].store(call + 1);
    if (counted) raise(SIGSTOP);
    if (counted) with.counting.store(1, std::memory_order_relaxed);
    group.run(plan, in, out, hooks);
    if (counted) with.counting.store(0, std::memory_order_relaxed);
    for (auto one : found)
      if (one != row.ranks * (row.ranks + 1) / 2) _exit(3);
  }
  group.close();
  _exit(0);
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "instructions: %s\n", what);
  std::exit(EXIT_FAILURE);
}

int stopped(pid_t pid) {
  int status = 0;
  expect(waitpid(pid, &status, WUNTRACED) == pid, "a rank is gone");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    std::printf("ptrace is not allowed here: no instructions counted\n");
    std::exit(EXIT_SUCCESS);
  }
  expect(WIFSTOPPED(status), "a rank ended early");
  return WSTOPSIG(status);
}

// The steps of the counted rank's next call, which has stopped before it. `go`: lets the others run.
long steps(pid_t pid, Shared& with, auto go) {
  long counted = 0, total = 0;
  bool alone = true;
  while (true) {
    expect(ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0, "cannot step");
    int status = 0;
    expect(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status), "the counted rank ended early");
    bool counting = with.counting.load(std::memory_order_relaxed) != 0;
    counted += counting;
    total++;
    if (counted && !counting) return alone ? counted : LONG_MAX;
    if (alone && total > most_alone) {
      alone = false;
      go();
    }
    expect(total < most_steps, "a call does not end");
  }
}

long least(const Row& row) {
  ringtree::Layout layout(row.ranks, row.ranks + 1, 4096);
  auto memory = shared<void>(layout.total);
  auto& with = *shared<Shared>(sizeof(Shared));
  std::vector<pid_t> pids;
  for (int rank = 0; rank < row.ranks; rank++) {
    pids.push_back(fork());
    if (pids.back() == 0) live(row, rank, memory, with);
  }
  long found = LONG_MAX;
  for (int call = 0; call < attempts; call++) {
    with.calls[0].store(call + 1);
    expect(stopped(pids[0]) == SIGSTOP, "another signal");
    for (int rank = 1; rank < row.ranks; rank++) {
      with.calls[rank].store(call + 1);
      while (with.begun[rank].load() <= call) usleep(1);
      for (auto until = ringtree::now_ns() + 30'000; ringtree::now_ns() < until;) {
      }
      kill(pids[rank], SIGSTOP);
      stopped(pids[rank]);
    }
    auto go = [&] {
      for (int rank = 1; rank < row.ranks; rank++) kill(pids[rank], SIGCONT);
    };
    found = std::min(found, steps(pids[0], with, go));
    go();
    ptrace(PTRACE_CONT, pids[0], nullptr, nullptr);
  }
  for (auto pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a rank failed");
  }
  munmap(memory, layout.total);
  return found;
}

}  // namespace

int main() {
  bool over = false;
  for (auto& row : rows) {
    long found = least(row);
    over |= found > row.most;
    std::printf("%s, %d ranks: %ld instructions, at most %d%s\n", row.name, row.ranks, found, row.most,
                found > row.most ? ": TOO MANY" : "");
  }
  return over ? EXIT_FAILURE : EXIT_SUCCESS;
}
