// Sums that are written where their receivers want them (interpreter/placing.cc), on ranks that are threads: in which
// calls that happens, and that it never changes a byte which is still wanted.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "world.h"

namespace {

using programs::bound, programs::most, programs::World, programs::wrong;
using programs::input, programs::message, programs::output, programs::slot;
using ringtree::Group;

int value(int rank, int turn, std::int64_t i) {
  return static_cast<int>((31 * rank + 7 * i + turn) % 1000);
}

// An all_reduce by two_shot, again and again. `in`, `out`: where the arrays of a rank lie.
struct Case {
  const char* what;
  std::function<bool(int rank)> in, out;
  bool in_place;
  std::int64_t chunk, window;
  bool average;
  std::function<bool(int from, int to)> placed;
};

constexpr auto all = [](int) { return true; };
constexpr auto none = [](int) { return false; };
constexpr auto but_rank_0 = [](int rank) { return rank != 0; };
constexpr auto always = [](int, int) { return true; };
constexpr auto never = [](int, int) { return false; };

const Case cases[] = {
    {"in place", all, all, true, 2000, 4000, false, always},
    {"in place, in many windows", all, all, true, 5000, 1200, false, always},
    {"out of place", all, all, false, 2000, 4000, false, always},
    {"only the output in the region", none, all, false, 2000, 4000, false, always},
    {"only the input in the region", all, none, false, 2000, 4000, false, never},
    {"an average", all, all, true, 2000, 4000, true, always},
    {"an average, out of place, in many windows", all, all, false, 5000, 1200, true, always},
    {"all but rank 0", but_rank_0, but_rank_0, true, 2000, 4000, false, [](int, int to) { return to != 0; }},
    {"short chunks", all, all, true, 1000, 4000, false, never},
    {"private arrays", none, none, true, 2000, 4000, false, never},
};

void check(const Case& c, int ranks) {
  constexpr int turns = 5;
  World world(ranks);
  auto count = c.chunk * ranks;
  auto where = std::string(c.what) + ", " + std::to_string(ranks) + " ranks";
  world.run([&](Group& group, int rank) {
    ringtree::Hooks hooks;
    auto plan = bound(group, programs::two_shot(rank, ranks), count, c.window, c.average);
    auto in = world.array(rank, 0, c.in(rank)), out = c.in_place ? in : world.array(rank, 1, c.out(rank));
    for (int turn = 0; turn < turns; turn++) {
      for (std::int64_t i = 0; i < count; i++) in[i] = value(rank, turn, i);
      group.run(plan, reinterpret_cast<std::byte*>(in), reinterpret_cast<std::byte*>(out), hooks);
      for (std::int64_t i = 0; i < count; i++) {
        int want = 0;
        for (int r = 0; r < ranks; r++) want += value(r, turn, i);
        if (out[i] != (c.average ? want / ranks : want)) wrong(where, "a wrong sum");
        if (!c.in_place && in[i] != value(rank, turn, i)) wrong(where, "another input than before");
      }
    }
  });
  auto windows = (c.chunk + c.window - 1) / c.window;
  bool multicasts = ranks > 2 && windows == 1 && c.chunk * sizeof(int) <= 4096;
  for (int from = 0; from < ranks; from++)
    for (int to = 0; to < ranks; to++) {
      if (from == to || multicasts) continue;
      auto number = static_cast<std::uint64_t>(2 * windows * turns - (windows > 1 ? 2 : 0));  // the last is of a rest
      if (world.placed(from, to, number) != c.placed(from, to))
        wrong(where, "the sum of rank " + std::to_string(from) + " for rank " + std::to_string(to) +
                         (c.placed(from, to) ? " does not lie there" : " lies there"));
    }
}

using Programs = std::function<programs::Program(int rank)>;

// Runs programs once, of each rank on rank + 1 everywhere; `pause(rank)`: before them.
struct Once {
  Once(
      int ranks, bool in_place, const Programs& of, const std::function<void(int)>& pause = [](int) {})
      : world(ranks), out(in_place ? 0 : 1) {
    world.run([&](Group& group, int rank) {
      ringtree::Hooks hooks;
      auto program = of(rank);
      auto plan = bound(group, program, chunk * program.chunks, chunk);
      auto x = world.array(rank, 0, true), y = world.array(rank, out, true);
      std::fill(x, x + most, rank + 1);
      pause(rank);
      group.run(plan, reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(y), hooks);
    });
  }
  void expect(const char* what, int rank, int of_chunk, int want) const {
    auto x = world.array(rank, out, true) + of_chunk * chunk;
    for (std::int64_t i = 0; i < chunk; i++)
      if (x[i] != want)
        wrong(what, "chunk " + std::to_string(of_chunk) + " of rank " + std::to_string(rank) + " is wrong");
  }
  static constexpr std::int64_t chunk = 4000;
  World world;
  int out;
};

// Rank 0 sends its chunk 0, and gets it back with rank 1's added. Rank 1 keeps the message, and copies it afterwards.
void check_a_message_that_is_kept() {
  Once once(2, true, [](int rank) {
    programs::Program p;
    p.chunks = 2;
    if (rank == 0) {
      p.send(1, 0, input(0));
      p.receive(1, output(0));
      return p;
    }
    p.wait(0, 0);
    p.reduce({output(0), slot(0, 0)}, {input(0), message(0, 0)});
    p.signal(0, 0);
    p.copy({output(1)}, message(0, 0));
    p.release(0);
    return p;
  });
  once.expect("a message that is kept", 0, 0, 3);
  once.expect("a message that is kept", 1, 0, 3);
  once.expect("a message that is kept", 1, 1, 1);
  if (once.world.placed(1, 0, 1)) wrong("a message that is kept", "was written over");
}

// Rank 0 sends one chunk to ranks 2 and 1, and gets it back from rank 1, while rank 2 comes late.
void check_a_reader_that_comes_late() {
  Once once(
      3, true,
      [](int rank) {
        programs::Program p;
        if (rank == 0) {
          p.send(2, 0, input(0));
          p.send(1, 1, input(0));
          p.receive(1, output(0));
        } else if (rank == 1) {
          p.wait(0, 0);
          p.reduce({slot(0, 0)}, {input(0), message(0, 0)});
          p.release(0);
          p.signal(0, 0);
        } else {
          p.receive(0, output(0));
        }
        return p;
      },
      [](int rank) {
        if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      });
  once.expect("a reader that comes late", 0, 0, 3);
  once.expect("a reader that comes late", 2, 0, 1);
}

// Rank 1 sends the sum of another chunk before the one for which rank 0 has granted a place.
void check_another_message_before() {
  Once once(2, false, [](int rank) {
    programs::Program p;
    p.chunks = 3;
    if (rank == 0) {
      p.send(1, 0, input(0));
      p.wait(1, 0);
      p.reduce({output(1)}, {input(1), message(0, 1)});
      p.release(1);
      p.receive(1, output(0));
    } else {
      p.wait(0, 0);
      p.reduce({output(2), slot(0, 2)}, {input(2), message(0, 2)});
      p.signal(0, 0);
      p.reduce({output(0), slot(0, 0)}, {input(0), message(0, 0)});
      p.release(0);
      p.signal(0, 0);
    }
    return p;
  });
  once.expect("another message before", 0, 0, 3);
  once.expect("another message before", 0, 1, 4);
  once.expect("another message before", 1, 0, 3);
  if (once.world.placed(1, 0, 1)) wrong("another message before", "lies where the one behind it belongs");
  if (!once.world.placed(1, 0, 2)) wrong("another message before", "keeps the sum from its place");
}

Group* failing = nullptr;
std::atomic<int> sums_of_blocks;

// A kernel during which the group fails.
void fails(void* target, const void* const*, int, std::size_t count) {
  std::fill_n(static_cast<int*>(target), count, -5);
  if (sums_of_blocks++ == 0) failing->poison("in the middle of a sum");
}

// Rank 1 writes no further into rank 0's array once the group has failed.
void check_a_failure_meanwhile() {
  World world(2);
  std::atomic<int> raised = 0;
  world.run([&](Group& group, int rank) {
    ringtree::Hooks hooks;
    programs::Program p;
    if (rank == 0) {
      p.send(1, 0, input(0));
      p.receive(1, output(0));
    } else {
      p.wait(0, 0);
      p.reduce({output(0), slot(0, 0)}, {input(0), message(0, 0)});
      p.release(0);
      p.signal(0, 0);
      failing = &group;
    }
    auto plan = bound(group, p, 4000, 4000);
    plan->reduce = fails;
    auto x = world.array(rank, 0, true);
    std::fill(x, x + 4000, rank + 1);
    try {
      group.run(plan, reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(x), hooks);
    } catch (const ringtree::Error&) {
      raised++;
    }
  });
  auto written = std::count(world.array(0, 0, true), world.array(0, 0, true) + 4000, -5);
  if (raised != 2) wrong("a failure meanwhile", "not both ranks raise it");
  if (written * sizeof(int) != 8192 || sums_of_blocks != 1)
    wrong("a failure meanwhile", "another number of bytes is written");
}

}  // namespace

int main() {
  for (auto& c : cases)
    for (int ranks : {2, 3, 4}) check(c, ranks);
  check_a_message_that_is_kept();
  check_a_reader_that_comes_late();
  check_another_message_before();
  check_a_failure_meanwhile();
  std::printf("sums are written into peers' arrays where they may be, in %zu cases: all right\n", std::size(cases));
}
