// A thread that waits moves to its home core, keeps the cores that it may run on, and stays where it is pinned.
#include "waits/home_core.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "home core: %s\n", what);
  std::exit(EXIT_FAILURE);
}

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

void may_run_on(const cpu_set_t& set) {
  expect(sched_setaffinity(0, sizeof set, &set) == 0, "cannot set the affinity");
}

cpu_set_t affinity() {
  cpu_set_t set;
  expect(sched_getaffinity(0, sizeof set, &set) == 0, "cannot read the affinity");
  return set;
}

// Of `tries` times that the thread began on `away`, how often it was on `home` after `visits`. Another program's work
// may move it, so not each time.
int moves(int home, int away, const cpu_set_t& all, int visits, int tries) {
  int found = 0;
  for (int k = 0; k < tries; k++) {
    ringtree::HomeCore core(home);
    may_run_on(only(away));
    may_run_on(all);
    if (sched_getcpu() != away) continue;
    for (int visit = 0; visit < visits; visit++) core.visit();
    found += sched_getcpu() == home;
    auto now = affinity();
    expect(CPU_EQUAL(&now, &all), "the affinity has changed");
  }
  return found;
}

}  // namespace

int main() {
  auto all = affinity();
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  if (cores.size() < 2) {
    std::printf("home core: one core, not checked\n");
    return EXIT_SUCCESS;
  }
  expect(moves(cores[1], cores[0], all, 1, 100) > 50, "a thread did not move at its first visit");
  expect(moves(-1, cores[0], all, 1, 100) == 0, "a thread without a home moved");

  auto pinned = only(cores[0]);
  may_run_on(pinned);
  for (int home : cores) ringtree::HomeCore(home).visit();
  auto now = affinity();
  expect(CPU_EQUAL(&now, &pinned) && sched_getcpu() == cores[0], "a pinned thread moved");
  may_run_on(all);

  // Each move makes the next one rarer: 16, 32, 64 ... visits.
  ringtree::HomeCore core(cores[1]);
  int looks = 0;
  for (int visit = 0; visit < 1000; visit++) {
    may_run_on(only(cores[0]));
    may_run_on(all);
    bool away = sched_getcpu() == cores[0];
    core.visit();
    looks += away && sched_getcpu() == cores[1];
  }
  expect(looks >= 2 && looks <= 30, "a thread that others move fought for long");
  std::printf("home core: all right\n");
  return EXIT_SUCCESS;
}
