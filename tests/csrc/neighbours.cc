// A rank that waits keeps its core for a while where all who share it wait in the same call, and only there.
#include "waits/neighbours.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

using ringtree::Member;
using ringtree::Neighbours;
using ringtree::Segment;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "neighbours: %s\n", what);
  std::exit(EXIT_FAILURE);
}

void begin(Segment& segment, int rank, std::uint64_t call) {
  segment.member(rank).calls[call % Member::remembered].version.store(2 * call);
}

// How often a wait for that peer keeps the core.
int kept(Neighbours& neighbours, int peer, std::uint64_t call) {
  int questions = 0, times = 0;
  for (int turn = 0; turn < 3 * Neighbours::most_questions; turn++)
    times += neighbours.keep_core(peer, call, questions);
  return times;
}

// Whether a wait that ends after a few questions has kept the core for them.
bool keeps(Neighbours& neighbours, int peer, std::uint64_t call) {
  int questions = 0;
  bool all = true;
  for (int turn = 0; turn < 3; turn++) all &= neighbours.keep_core(peer, call, questions);
  neighbours.came(questions);
  return all;
}

}  // namespace

int main() {
  constexpr int ranks = 4;
  constexpr std::uint64_t call = 70;  // the record of an earlier one is in its place
  ringtree::Layout layout(ranks, 2, 1024);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, layout.total), std::free);
  std::memset(memory.get(), 0, layout.total);
  Segment segment(memory.get(), layout);
  Neighbours neighbours(segment, 0, {0, 0, 1, 1});

  begin(segment, 1, call - Member::remembered);
  expect(!keeps(neighbours, 2, call), "a rank kept the core from one that had yet to begin");
  segment.member(1).calls[call % Member::remembered].version.store(2 * call - 1);
  expect(!keeps(neighbours, 2, call), "a rank kept the core from one that was beginning");
  begin(segment, 1, call);
  expect(keeps(neighbours, 2, call) && !keeps(neighbours, -1, call),
         "a rank gave the core to one that waits as it does");
  expect(!keeps(neighbours, 1, call), "a rank kept the core from the one that it waited for");
  expect(!keeps(neighbours, 2, 0), "a rank kept the core in a wait that is in no short exchange");
  begin(segment, 1, call + Member::remembered);
  expect(keeps(neighbours, 2, call), "a rank gave the core to one that is calls ahead");

  Neighbours alone(segment, 0, {0, 1, 1, -1}), free(segment, 0, {});
  expect(!keeps(alone, 2, call) && !keeps(free, 2, call), "a rank kept a core that it does not share");

  // In vain: the wait gives the core away, and so do the next waits, more of them each time.
  for (int waits : {1, 3, 7}) {
    expect(kept(neighbours, 2, call) == Neighbours::most_questions, "a wait kept the core for too long or too short");
    for (int k = 0; k < waits; k++) expect(kept(neighbours, 2, call) == 0, "a wait in vain had no effect");
  }
  expect(keeps(neighbours, 2, call), "a rank gave up for good");
  expect(kept(neighbours, 2, call) == Neighbours::most_questions, "a wait kept the core for too long or too short");
  expect(kept(neighbours, 2, call) == 0 && keeps(neighbours, 2, call), "a wait that was not in vain had no effect");
  std::printf("neighbours: all right\n");
  return EXIT_SUCCESS;
}
