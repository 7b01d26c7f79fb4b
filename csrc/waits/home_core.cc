#include "waits/home_core.h"

#include <sched.h>

#include <algorithm>

namespace ringtree {

namespace {

constexpr int most_between_looks = 1 << 16;  // some 0.2 s of waits

}  // namespace

void HomeCore::look() {
  auto between = between_looks_.load(std::memory_order_relaxed);
  until_look_.store(between, std::memory_order_relaxed);
  if (sched_getcpu() == core_) return;
  cpu_set_t may, home;
  if (sched_getaffinity(0, sizeof may, &may) != 0 || !CPU_ISSET(core_, &may) || CPU_COUNT(&may) == 1) return;
  CPU_ZERO(&home);
  CPU_SET(core_, &home);
  if (sched_setaffinity(0, sizeof home, &home) == 0) sched_setaffinity(0, sizeof may, &may);
  between_looks_.store(std::min(2 * between, most_between_looks), std::memory_order_relaxed);
}

}  // namespace ringtree
