// What a rank sends on after it has given back the messages that it is made from.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "world.h"

namespace {

using programs::bound, programs::World, programs::wrong;
using programs::input, programs::message, programs::output, programs::slot;
using ringtree::Group;

// A short message that a rank sends on once it has given it back: its entry is written again at once.
void check_short_messages_sent_on() {
  constexpr int turns = 400;
  World world(3);
  world.run([&](Group& group, int rank) {
    ringtree::Hooks hooks;
    programs::Program p;
    if (rank == 0) {
      p.send(1, 0, input(0));
    } else if (rank == 1) {
      p.wait(0, 0);
      p.copy({slot(0, 0)}, message(0, 0));
      p.release(0);
      p.signal(2, 0);
    } else {
      p.receive(1, output(0));
    }
    auto plan = bound(group, p, 8, 8);
    for (int turn = 0; turn < turns; turn++) {
      int x[8];
      std::fill(x, x + 8, rank == 0 ? turn : -1);
      if (rank == 2 && turn % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the lane fills
      group.run(plan, reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(x), hooks);
      if (rank == 2 && std::ranges::count(x, turn) != 8) wrong("a short message sent on", "is another's");
    }
  });
}

// A sum in the region is sent from where it lies.
void check_a_sum_sent_on() {
  constexpr int count = 4000;
  World world(3);
  world.run([&](Group& group, int rank) {
    ringtree::Hooks hooks;
    programs::Program p;
    if (rank == 0) {
      p.send(1, 0, input(0));
    } else if (rank == 1) {
      p.wait(0, 0);
      p.reduce({output(0), slot(0, 0)}, {input(0), message(0, 0)});
      p.release(0);
      p.signal(2, 0);
    } else {
      p.receive(1, output(0));
    }
    auto plan = bound(group, p, count, count);
    auto x = world.array(rank, 0, true);
    std::fill(x, x + count, rank + 1);
    group.run(plan, reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(x), hooks);
    if (rank > 0 && std::count(x, x + count, 3) != count) wrong("a sum sent on", "is wrong");
  });
  if (world.whose(1, 2, 1) != 1) wrong("a sum sent on", "is staged");
}

}  // namespace

int main() {
  check_short_messages_sent_on();
  check_a_sum_sent_on();
  std::printf("what is sent on after its messages are given back: all right\n");
}
