#include "device/host.h"

#include <sched.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "device/interpreter.h"
#include "kernels/kernels.h"

namespace ringtree::device {

namespace {

// One thread, which is a block of its own.
struct Host {
  static constexpr uint32_t turns = 64;

  static int thread() { return 0; }
  static int threads() { return 1; }
  static void barrier() {}
  static bool any(bool it) { return it; }
  static bool stop(const volatile uint32_t* word) { return __atomic_load_n(word, __ATOMIC_RELAXED) != 0; }
  static uint64_t now_ns() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
  }
  static void pause(uint32_t) { sched_yield(); }
  template <class T>
  static T acquire(const T* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static uint64_t read(const uint64_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
  template <class T>
  static void release(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  static void add(uint32_t* word) { __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); }
  static void post(uint32_t* there, uint32_t value) { *there = value; }
  static void report(Status* status, const Status& found) {
    if (status->outcome != fine) return;
    auto ended = status->ended;
    *status = found;
    status->ended = ended;
  }

  static void copy(Registers& shared, int targets, int source, int64_t nbytes) {
    for (int t = 0; t < targets; t++)
      if (shared.at(t) != shared.at(source)) std::memmove(shared.at(t), shared.at(source), static_cast<size_t>(nbytes));
  }

  static void reduce(const Call& call, Registers& shared, int targets, int first, int sources, int64_t elements) {
    const void* from[most_operands];
    for (int s = 0; s < sources; s++) from[s] = shared.at(first + s);
    auto count = static_cast<size_t>(elements);
    kernels().reduce[call.program->dtype][call.program->op](shared.at(0), from, sources, count);
    for (int t = 1; t < targets; t++) std::memcpy(shared.at(t), shared.at(0), count * call.program->item);
  }

  static void finish(const Call& call, uint8_t* data, int64_t elements, int ranks) {
    kernels().finish[call.program->dtype][call.program->op](data, static_cast<size_t>(elements), ranks);
  }
};

}  // namespace

void run_on_host(const Call& call) {
  auto shared = std::make_unique<Registers>();
  auto kept = std::make_unique<KeptTables>();
  for (int block = 0; block < call.blocks && call.status->outcome == fine; block++) {
    Tables<Host> tables(call, *kept);
    Interpreter<Host>(call, tables, *shared, block).run();
  }
}

}  // namespace ringtree::device
