// The agreement of survivors: many ranks decide the same turns at once, and all read one decision of each, whole.
#include "health/agreement.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

using ringtree::Agreement;

constexpr int ranks = 70;  // more than one word of members
constexpr int deciders = 4;
constexpr std::uint32_t turns = 3000;

struct Seen {
  std::mutex mutex;
  std::map<std::uint32_t, Agreement::Decision> of_turn;
  int differing = 0, decided = 0;

  void add(const Agreement::Decision& found) {
    std::lock_guard lock(mutex);
    auto& first = of_turn.emplace(found.turn, found).first->second;
    if (first.members != found.members || first.made != found.made) differing++;
  }
};

// A proposal that tells by itself whether it is whole: its members are those of one residue.
std::vector<int> proposal(int rank, std::uint32_t turn) {
  std::vector<int> members;
  for (int member = 0; member < ranks; member++)
    if (member % deciders == static_cast<int>((rank + turn) % deciders)) members.push_back(member);
  return members;
}

void decide_all(ringtree::Segment& segment, int rank, Seen& seen) {
  Agreement mine(segment, rank);
  std::mt19937 draw(rank);
  for (std::uint32_t turn = 1; turn <= turns;) {
    mine.arrive(turn, turn % 2 == 0, {});
    if (draw() % 3 == 0) std::this_thread::yield();
    if (mine.decide({turn, turn % 2 == 0, proposal(rank, turn)})) {
      std::lock_guard lock(seen.mutex);
      seen.decided++;
    }
    auto last = mine.decision();
    seen.add(last);
    turn = last.turn + 1;
  }
}

bool right(const Seen& seen) {
  if (seen.differing || seen.decided != static_cast<int>(turns)) {
    std::fprintf(stderr, "%d decisions read differently; %d made, expected %u\n", seen.differing, seen.decided, turns);
    return false;
  }
  for (auto& [turn, decision] : seen.of_turn) {
    bool whole = false;
    for (int rank = 0; rank < deciders; rank++) whole |= decision.members == proposal(rank, turn);
    if (!whole || decision.made != (turn % 2 == 0)) {
      std::fprintf(stderr, "turn %u: a decision that nobody made\n", turn);
      return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  ringtree::Layout layout(ranks, 2, 1024);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, layout.total), std::free);
  std::memset(memory.get(), 0, layout.total);
  ringtree::Segment segment(memory.get(), layout);
  Seen seen;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < deciders; rank++) threads.emplace_back([&, rank] { decide_all(segment, rank, seen); });
  for (auto& thread : threads) thread.join();
  bool shunned = true;
  Agreement(segment, 0).arrive(turns + 1, true, {3, 69});
  auto arrivals = Agreement(segment, 1).arrivals();
  for (int rank = 0; rank < ranks; rank++) shunned &= arrivals[rank].shunned == (rank == 3 || rank == 69);
  shunned &= arrivals[0].turn == turns + 1 && arrivals[0].ready;
  if (!right(seen) || !shunned) return 1;
  std::printf("agreement: %u turns of %d deciders, one decision each\n", turns, deciders);
}
