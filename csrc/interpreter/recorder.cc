#include "interpreter/recorder.h"

#include <sys/mman.h>

#include <algorithm>

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

Recorder::Recorder(std::size_t most, bool lazily) : room_(most) {
  lazily || most * sizeof(Event) < Mapping::large_page ? extend(first_bytes, Mapping::page)
                                                       : extend(2 * Mapping::large_page, Mapping::large_page);
  began_ = Clock::Moment::now();
}

// Takes memory for more events; false, and the event is dropped, where there may be or is no more. Large pages, where
// the kernel has them: to be given small ones one by one takes ten times as long, and longer than all the rest.
bool Recorder::extend(std::size_t nbytes, std::size_t alignment) {
  auto size = std::min(room_, nbytes / sizeof(Event));
  auto memory = size > 0 ? std::aligned_alloc(alignment, nbytes) : nullptr;
  if (!memory) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }
  if (alignment == Mapping::large_page) madvise(memory, nbytes, MADV_HUGEPAGE);
#if defined(MADV_POPULATE_WRITE)  // where it fails, pages come as they are touched
  madvise(memory, nbytes, MADV_POPULATE_WRITE);
#endif
  std::lock_guard lock(mutex_);
  chunks_.push_back({std::unique_ptr<Event, Free>(static_cast<Event*>(memory)), size});
  next_.store(chunks_.back().events.get(), std::memory_order_relaxed);
  end_ = chunks_.back().events.get() + size;
  room_ -= size;
  resume();
  return true;
}

std::vector<Recorder::Event> Recorder::events() const {
  std::lock_guard lock(mutex_);
  auto next = next_.load(std::memory_order_acquire);  // pairs with add()
  std::vector<Event> all;
  for (auto& [events, size] : chunks_)
    all.insert(all.end(), events.get(), &events == &chunks_.back().events ? next : events.get() + size);
  // An event whose time is unknown takes the start of the event after it, for which the clock was read. Where none
  // follows, it is dropped.
  while (!all.empty() && all.back().end == unknown) all.pop_back();
  for (auto e = all.rbegin(); e != all.rend(); ++e)
    if (e->end == unknown) e->start = e->end = std::prev(e)->start;
  return all;
}

// Calls are few and mostly the same again: begin() compares with the last one first.
std::int32_t Recorder::position_of(const Fingerprint& print) {
  std::lock_guard lock(mutex_);
  auto found = std::find(calls_.begin(), calls_.end(), print);
  if (found == calls_.end()) found = calls_.insert(found, print);
  return static_cast<std::int32_t>(found - calls_.begin());
}

std::vector<Fingerprint> Recorder::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

// Reads both clocks at once; keeps the closest pair of a few attempts.
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
