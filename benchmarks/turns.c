// The turns of benchmarks/turns.py with nothing else in them: each rank raises a flag, and yields until all are up.
//
//     cc -O2 benchmarks/turns.c -o build/turns && build/turns 4
//
// Shown are the microseconds of a round and the context switches of a rank in it, for the first and the last rank.
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { warm = 1000, rounds = 200000 };

typedef struct {
  _Alignas(128) atomic_long round;
} Flag;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static long switches(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw + used.ru_nivcsw;
}

// A rank on the core of its turn, as many on each.
static void live(Flag* flags, int rank, int ranks, long cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank % cores, &set);
  sched_setaffinity(0, sizeof set, &set);
  double began_us = 0;
  long before = 0;
  for (long round = 1; round <= warm + rounds; round++) {
    if (round == warm + 1) began_us = now_us(), before = switches();
    atomic_store_explicit(&flags[rank].round, round, memory_order_release);
    for (int peer = 0; peer < ranks; peer++)
      while (atomic_load_explicit(&flags[peer].round, memory_order_acquire) < round) sched_yield();
  }
  double us = (now_us() - began_us) / rounds, turns = (double)(switches() - before) / rounds;
  if (rank == 0 || rank == ranks - 1) printf("%d ranks, rank %d: %.2f us, %.2f switches\n", ranks, rank, us, turns);
}

int main(int count, char** words) {
  int ranks = count > 1 ? atoi(words[1]) : 0;
  if (ranks < 1 || ranks > 1024) return fprintf(stderr, "expected the number of ranks, 1 to 1024\n"), 2;
  Flag* flags = mmap(NULL, ranks * sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (flags == MAP_FAILED) return perror("mmap"), 1;
  for (int rank = 0; rank < ranks; rank++)
    if (fork() == 0) {
      live(flags, rank, ranks, sysconf(_SC_NPROCESSORS_ONLN));
      fflush(stdout);
      _exit(0);
    }
  while (wait(NULL) > 0) {
  }
  return 0;
}
