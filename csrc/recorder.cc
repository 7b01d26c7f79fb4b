#include "recorder.h"

#include <sys/mman.h>

#include <algorithm>

#include "mapping.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ringtree {

#if defined(__x86_64__)
const bool Ticks::counted = [] {
  unsigned a, b, c, d;
  constexpr unsigned power_management = 0x80000007, invariant = 1 << 8;
  return __get_cpuid(power_management, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
}();
#endif

Recorder::Recorder(std::size_t most) : most_(most), events_(new Event[most]) {
  make_ready();
  began_ = Clock::Moment::now();
}

// Takes memory for some more, many pages at once: to be given them one by one takes longer than all the rest. False,
// and one more is dropped, where there may be no more.
bool Recorder::make_ready() {
  constexpr std::size_t step = 4096;
  if (ready_ == most_) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }
  auto begin = reinterpret_cast<std::uintptr_t>(events_.get() + ready_) / Mapping::page * Mapping::page;
  ready_ = std::min(ready_ + step, most_);
#if defined(MADV_POPULATE_WRITE)  // where it fails, pages come as they are touched
  auto end = reinterpret_cast<std::uintptr_t>(events_.get() + ready_);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
  resume();
  return true;
}

// Calls are few and mostly the same again: begin() compares with the last one first.
std::int32_t Recorder::place_of(const Fingerprint& print) {
  std::lock_guard lock(mutex_);
  auto found = std::find(calls_.begin(), calls_.end(), print);
  if (found == calls_.end()) found = calls_.insert(found, print);
  return static_cast<std::int32_t>(found - calls_.begin());
}

std::vector<Fingerprint> Recorder::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

// Both clocks at once, as nearly as a few attempts can tell.
Recorder::Clock::Moment Recorder::Clock::Moment::now() {
  Moment best{};
  std::uint64_t narrowest = UINT64_MAX;
  for (int attempt = 0; attempt < 32; attempt++) {
    auto before = Ticks::now();
    auto ns = now_ns();
    auto after = Ticks::now();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {before + narrowest / 2, ns};
  }
  return best;
}

Recorder::Clock::Clock(Moment first, Moment last) : first_(first) {
  auto ticks = static_cast<double>(last.ticks - first.ticks);
  pace_ = ticks > 0 ? static_cast<double>(last.ns - first.ns) / ticks : 0;
}

}  // namespace ringtree
