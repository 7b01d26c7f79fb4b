#include "waits/background.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

namespace ringtree {

namespace {

struct Register {
  std::mutex mutex;
  std::atomic<int> enlisted = 0;
  std::vector<Background*> all;
};

// A forked child has no endpoint in any group, and so owes its peers nothing: it begins with a register of its own.
Register& the_register() {
  alignas(Register) static std::byte memory[sizeof(Register)];
  static Register* made = [] {
    pthread_atfork(nullptr, nullptr, [] { new (memory) Register; });
    return new (memory) Register;
  }();
  return *made;
}

}  // namespace

void Background::enlist() {
  auto& r = the_register();
  std::lock_guard lock(r.mutex);
  if (std::find(r.all.begin(), r.all.end(), this) == r.all.end()) r.all.push_back(this);
  r.enlisted.store(static_cast<int>(r.all.size()), std::memory_order_relaxed);
}

void Background::retire() {
  auto& r = the_register();
  std::lock_guard lock(r.mutex);
  std::erase(r.all, this);
  r.enlisted.store(static_cast<int>(r.all.size()), std::memory_order_relaxed);
}

bool Background::advance_all() {
  auto& r = the_register();
  if (r.enlisted.load(std::memory_order_relaxed) == 0) return false;
  std::unique_lock lock(r.mutex, std::try_to_lock);  // someone else is at it, or about to be
  bool moved = false;
  if (lock.owns_lock())
    for (auto each : r.all) moved |= each->advance();
  return moved;
}

}  // namespace ringtree
