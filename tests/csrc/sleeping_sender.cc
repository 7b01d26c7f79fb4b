// A sender that waits for a staging slot, and a receiver that releases one at the worst moment: after the sender's last
// question and before it sleeps. Two hundred such waits, by ranks that are threads; then every slot is free.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "group/group.h"
#include "programs.h"
#include "waits/background.h"

namespace {

using ringtree::Group;

constexpr int slots = 2, waits = 200, calls = slots + waits;
constexpr std::int64_t count = 256;                   // int32: more than a descriptor holds, so that it is staged
constexpr std::int64_t nearly_asleep_ns = 1'000'000;  // longer than a wait yields before it sleeps

std::counting_semaphore<> may_receive(0), received(0);

// What the sender does between its last question and its sleep: the receiver takes and releases a message meanwhile.
struct LateRelease : ringtree::Background {
  bool advance() noexcept override {
    if (std::this_thread::get_id() != sender) return false;
    auto now = ringtree::now_ns();
    if (now - last_ns > 10 * nearly_asleep_ns) since_ns = now;  // another wait
    last_ns = now;
    if (now - since_ns < nearly_asleep_ns) return false;
    may_receive.release();
    received.acquire();
    last_ns = 0;
    return false;
  }
  std::thread::id sender;
  std::int64_t since_ns = 0, last_ns = 0;
};

std::unique_ptr<Group> join(void* memory, int rank) {
  ringtree::Endpoint::Options endpoint;
  endpoint.timeout_s = 5;
  endpoint.oversubscribed = true;
  return std::make_unique<Group>(memory, rank, 2, Group::Options{slots, 1024, true, endpoint});
}

int guarded(auto body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(EXIT_FAILURE);
  }
}

}  // namespace

int main() {
  ringtree::Layout layout(2, slots, 1024);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, layout.total), std::free);
  std::memset(memory.get(), 0, layout.total);
  auto root = join(memory.get(), 0), other = join(memory.get(), 1);
  LateRelease late;
  std::thread receiver([&] {
    guarded([&] {
      std::vector<int> data(count);
      for (int call = 0; call < calls; call++) {
        may_receive.acquire();
        programs::broadcast(*other, 1, 2, 0, data);
        received.release();
        if (std::ranges::count(data, call) != count) throw std::runtime_error("a wrong broadcast");
      }
    });
  });
  late.sender = std::this_thread::get_id();
  late.enlist();
  guarded([&] {
    for (int call = 0; call < calls; call++) {
      std::vector<int> data(count, call);
      programs::broadcast(*root, 0, 2, 0, data);
    }
  });
  late.retire();
  for (int left = 0; left < slots; left++) may_receive.release();
  receiver.join();
  for (auto group : {root.get(), other.get()})
    if (int open = group->slots_open()) {
      std::fprintf(stderr, "%d of %d staging slots are still open\n", open, slots);
      return EXIT_FAILURE;
    }
  std::printf("%d waits for a staging slot that ended as the sender fell asleep: all slots are free\n", waits);
}
