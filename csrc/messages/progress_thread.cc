#include "messages/progress_thread.h"

#include "machine.h"
#include "memory/limits.h"

namespace ringtree {

namespace {

constexpr int yields = 16;                   // looks again after something moved, before it sleeps
constexpr std::int64_t nap_ns = 50'000'000;  // while something is under way: should a ring be missed
constexpr std::int64_t sleep_ns = 1'000'000'000;

}  // namespace

void ProgressThread::start() {
  thread_ = start_thread("that moves messages", [this] { loop(); });
}

void ProgressThread::arm() {
  if (!wanted()) return;
  expect_ring();
  duty_.move();
}

void ProgressThread::expect_ring() {
  doorbell_.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Endpoint::wake_progress_thread()
}

void ProgressThread::loop() {
  while (!stopping_.load()) {
    for (int idle = 0; idle < yields && wanted(); idle++) {
      if (duty_.move()) idle = 0;
      sched_yield();
    }
    arm();
    // Read before the need: a thread that arms it from now on ends the wait.
    auto seen = doorbell_.load(std::memory_order_seq_cst);
    auto need = duty_.need();
    if (seen == 2) continue;
    if (need == Need::wanted) seen = 1;  // else it was rung already
    futex_wait(doorbell_, seen, need == Need::none ? sleep_ns : nap_ns);
  }
  ended_.store(true);
}

// The doorbell may be armed or disarmed by others at any moment, so one ring might be lost.
void ProgressThread::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  while (!ended_.load()) {
    doorbell_.store(2, std::memory_order_seq_cst);
    futex_wake(doorbell_);
    sched_yield();
  }
  thread_.join();
}

}  // namespace ringtree
