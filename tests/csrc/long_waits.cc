// Long waits written down by many threads, and read meanwhile: what is read is whole, and each place is used again.
#include "waits/long_waits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

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
    int place = waits.begin(peer, 2 * peer, peer, std::to_string(peer), std::string(peer % 400, 'g'));
    if (place >= 0) waits.end(place);
  }
}

bool is_whole(const ringtree::WaitRecord& record) {
  auto expected = std::string(record.peer % 400, 'g');
  if (expected.size() >= sizeof record.group) expected = expected.substr(0, sizeof record.group - 4) + "...";
  return record.since_ns == record.peer && record.deadline_ns == 2 * std::int64_t(record.peer) &&
         record.where == std::to_string(record.peer) && record.group == expected;
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
    check(waits.begin(1, 2, -1, "barrier, call 1", {}) == static_cast<int>(i), "another place");
  check(waits.begin(1, 2, -1, "barrier, call 1", {}) == -1, "a place that there is not");
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
  check(nowhere.begin(1, 2, 0, "recv", {}) == -1 && nowhere.begin(1, 2, 0, "recv", {}) == -1, "a wait written nowhere");
  std::printf("long waits: %d seen while they were written, all whole\n", seen);
}
