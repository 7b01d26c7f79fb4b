// Long waits written down by many threads, and read meanwhile: what is read is whole, and each place is used again.
// Chains of them: what counts as a link, and where a chain ends.
#include "waits/long_waits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "machine.h"
#include "waits/chain_of_waits.h"

namespace {

using ringtree::LongWaits;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "long_waits: %s\n", what);
  std::exit(1);
}

// Waits whose fields belong together.
void write_down(LongWaits& waits, int thread, int times) {
  for (int i = 1; i <= times; i++) {
    int peer = thread * 100'000 + i;
    int place = waits.begin(peer, 2 * peer, peer, std::to_string(peer), std::string(peer % 400, 'g'), 7);
    if (place >= 0 && i % 2) waits.end(place);
    if (place >= 0 && i % 2 == 0) waits.give_up(place, peer);
  }
}

bool is_whole(const ringtree::WaitRecord& record) {
  auto expected = std::string(record.peer % 400, 'g');
  if (expected.size() >= sizeof record.group) expected = expected.substr(0, sizeof record.group - 4) + "...";
  return record.since_ns == record.peer && record.deadline_ns == 2 * std::int64_t(record.peer) &&
         record.where == std::to_string(record.peer) && record.group == expected;
}

// Chains of waits of ranks 0 to 5, each with a page of its own in the file.
void follow_chains(int fd) {
  constexpr std::int64_t second = 1'000'000'000;
  std::deque<LongWaits> of;
  for (int rank = 0; rank < 6; rank++) of.emplace_back(fd, 0, rank);
  auto now = ringtree::now_ns();
  auto waits_for = [&](int rank, int peer, std::int64_t ago_ns, std::int64_t limit_ns, std::uint64_t memory = 1) {
    return of[rank].begin(now - ago_ns, now - ago_ns + limit_ns, peer, "recv", {}, memory);
  };
  auto chain = [&](int first, int stopped = -1, std::uint64_t memory = 1) {
    return chain_of_waits(of[0], 0, first, memory, [&](int rank) { return rank == stopped; });
  };
  auto is = [](const ringtree::ChainOfWaits& found, std::vector<int> all, bool circle = false, bool stopped = false) {
    return found.all == all && found.circle == circle && found.stopped == stopped;
  };
  check(is(chain(1), {1}), "a chain of a rank that waits for nobody");
  waits_for(1, 2, second, 10 * second);
  int short_wait = waits_for(2, 3, second / 10, 10 * second);
  check(is(chain(1), {1, 2}), "a wait of 0.1 s of at most 10 counts");
  of[2].end(short_wait);
  int quarter = waits_for(2, 3, second / 10, second / 4);
  check(is(chain(1), {1, 2, 3}), "a wait of a quarter of its limit does not count");
  check(is(chain(1, 2), {1, 2}, false, true), "a chain goes on behind a process that is stopped");
  of[2].give_up(quarter, now - second / 2);
  check(is(chain(1), {1, 2, 3}), "a wait that gave up half a second ago does not count");
  check(LongWaits::read(fd, 2 * LongWaits::page).empty(), "a wait that gave up goes on");
  of[2].give_up(waits_for(2, 4, second, second), now - second / 4);
  check(is(chain(1), {1, 2, 4}), "of two waits that gave up the later does not count");
  waits_for(2, -1, 3 * second, 10 * second);
  check(is(chain(1), {1, 2, 4}), "a wait for any peer is a link");
  of[4].give_up(of[4].begin(now - second, now, -1, "recv from any rank", {}, 1), now - second / 4);
  check(chain(1).last_waits_in == "recv from any rank", "the last one's wait for any rank, which gave up, is lost");
  of[4].begin(now - second, now + 9 * second, -1, "split", {}, 1);
  check(chain(1).last_waits_in == "split", "the last one's wait for any rank is lost");
  check(chain(1, 4).last_waits_in.empty(), "a stopped process waits");
  waits_for(2, 5, 2 * second, 10 * second, 7);
  waits_for(2, 3, second, 10 * second);
  check(is(chain(1), {1, 2, 3}), "a wait in the group does not come first");
  check(is(chain(1, -1, 9), {1, 2, 5}), "the oldest wait elsewhere does not come first");
  waits_for(3, 1, second, 10 * second);
  check(is(chain(1), {1, 2, 3, 1}, true), "no circle");
  waits_for(5, 0, second, 10 * second);
  check(is(chain(5), {5, 0}, true), "no circle with the rank that asks");

  auto links = [&](int first, std::size_t most) {
    std::vector<int> ranks;
    for (auto& [rank, wait] : links_of(of[0], first, 1, most)) ranks.push_back(rank);
    return ranks;
  };
  check(links(1, 9) == std::vector{1, 2, 3}, "links of a circle");
  check(links(1, 2) == std::vector{1, 2}, "more links than may be");
  check(links(0, 9).empty(), "links of a rank that waits for nobody");
}

// Waits of rank 1, which is elsewhere, as two ranks of this host last heard of them.
void note_waits_elsewhere(int fd) {
  constexpr std::int64_t second = 1'000'000'000;
  LongWaits mine(fd, 0, 0), others(fd, 0, 2);
  auto note = [&](LongWaits& by, int peer, std::int64_t ago_ns) {
    auto now = ringtree::now_ns();
    ringtree::WaitRecord record{};
    record.since_ns = now - 3 * second;
    record.deadline_ns = now + 9 * second;
    record.gave_up_ns = now - ago_ns;
    record.peer = peer;
    by.note_elsewhere(1, record);
  };
  auto chain = [&] { return chain_of_waits(mine, 0, 1, 1, [](int) { return false; }).all; };
  note(mine, 3, second / 2);
  check(chain() == std::vector{1, 3}, "a wait elsewhere that was seen half a second ago does not count");
  note(others, 2, second / 4);
  check(chain() == std::vector{1, 2}, "of two that were seen the later does not count");
  note(mine, 3, second * 3 / 2);
  note(others, 2, second * 5 / 4);
  check(chain() == std::vector{1}, "a wait elsewhere counts for more than a second");
  check(LongWaits::read(fd, LongWaits::page).empty(), "a wait elsewhere goes on");
}

}  // namespace

int main() {
  constexpr std::size_t first = 2 * LongWaits::page, at = 3 * LongWaits::page;
  int fd = memfd_create("waits", 0);
  check(fd >= 0, "no memfd");
  check(LongWaits::read(fd, at).empty(), "waits in a memory that ends before");
  check(ftruncate(fd, at + LongWaits::page) == 0, "no memory");
  LongWaits waits(fd, first, 1);
  check(LongWaits::read(fd, at).empty(), "waits before the first");

  for (std::size_t i = 0; i < LongWaits::records; i++)
    check(waits.begin(1, 2, -1, "barrier, call 1", {}, 0) == static_cast<int>(i), "another place");
  check(waits.begin(1, 2, -1, "barrier, call 1", {}, 0) == -1, "a place that there is not");
  check(LongWaits::read(fd, at).size() == LongWaits::records, "not all waits");
  for (std::size_t i = 0; i < LongWaits::records; i++) waits.end(static_cast<int>(i));
  check(LongWaits::read(fd, at).empty(), "waits that have ended");

  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; thread++) threads.emplace_back([&, thread] { write_down(waits, thread, 20'000); });
  int seen = 0;
  for (int look = 0; look < 20'000; look++)
    for (auto& record : LongWaits::read(fd, at)) check(++seen && is_whole(record), "a wait that is not whole");
  for (auto& thread : threads) thread.join();
  check(LongWaits::read(fd, at).empty(), "waits that have ended");

  LongWaits nowhere(-1, first, 1);
  check(nowhere.begin(1, 2, 0, "recv", {}, 0) == -1 && nowhere.begin(1, 2, 0, "recv", {}, 0) == -1,
        "a wait written nowhere");

  int chains = memfd_create("chains", 0);
  check(chains >= 0 && ftruncate(chains, 6 * LongWaits::page) == 0, "no memory");
  follow_chains(chains);
  int elsewhere = memfd_create("elsewhere", 0);
  check(elsewhere >= 0 && ftruncate(elsewhere, 4 * LongWaits::page) == 0, "no memory");
  note_waits_elsewhere(elsewhere);
  std::printf("long waits: %d seen while they were written, all whole\n", seen);
}
