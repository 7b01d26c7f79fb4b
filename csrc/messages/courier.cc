#include "messages/courier.h"

#include "machine.h"

namespace ringtree {

namespace {

constexpr int yields = 16;                   // looks again after something moved, before it sleeps
constexpr std::int64_t nap_ns = 50'000'000;  // while something is under way: should a ring be missed
constexpr std::int64_t sleep_ns = 1'000'000'000;

}  // namespace

void Courier::start() {
  thread_ = std::thread([this] { loop(); });
}

void Courier::arm() {
  if (!wanted()) return;
  bell_.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Seat::call_courier()
  duty_.move();
}

void Courier::loop() {
  while (!stopping_.load()) {
    for (int idle = 0; idle < yields && wanted(); idle++) {
      if (duty_.move()) idle = 0;
      sched_yield();
    }
    arm();
    auto heard = bell_.load(std::memory_order_seq_cst);  // before the need: who arms it from then on ends the wait
    auto need = duty_.need();
    if (heard == 2) continue;
    if (need == Need::wanted) heard = 1;  // else it was rung already
    futex_wait(bell_, heard, need == Need::none ? sleep_ns : nap_ns);
  }
  ended_.store(true);
}

// The bell may be armed or disarmed by others at any moment, so one ring might be lost.
void Courier::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  while (!ended_.load()) {
    bell_.store(2, std::memory_order_seq_cst);
    futex_wake(bell_);
    sched_yield();
  }
  thread_.join();
}

}  // namespace ringtree
