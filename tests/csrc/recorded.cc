// Every event that is noted is found in a record, in order, however often its memory grew; what it had no room for is
// counted.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "interpreter/recorder.h"
#include "world.h"

namespace {

using ringtree::Fingerprint;
using ringtree::Recorder;

constexpr std::size_t beyond = 7;  // events more than there is room for

bool expect(bool right, const char* what, std::size_t most, bool lazily) {
  if (!right) std::fprintf(stderr, "a record of %zu events%s: %s\n", most, lazily ? ", lazily" : "", what);
  return right;
}

bool keeps_all(std::size_t most, bool lazily) {
  Recorder recorder(most, lazily);
  Fingerprint print{1, 2, 3};
  for (std::size_t k = 0; k < most + beyond; k++)
    recorder.note_message(print, Recorder::Did::send, 2 * k, 2 * k + 1, 1, 8, k);
  auto events = recorder.events();
  bool whole = events.size() == most;
  for (std::size_t k = 0; whole && k < most; k++)
    whole = events[k].chunk == static_cast<std::int32_t>(k) && events[k].start == 2 * k && events[k].end == 2 * k + 1;
  return expect(whole, "events are missing or out of order", most, lazily) &
         expect(recorder.dropped() == beyond, "what it had no room for is miscounted", most, lazily);
}

// What is done before a call's first message is out takes the time of that message.
bool takes_the_time_of_the_next() {
  Recorder recorder(10, true);
  Fingerprint first{1, 2, 3}, second{1, 2, 4};
  recorder.begin(first, true);
  recorder.note_work(Recorder::Did::copy, -1, 8, 0);
  bool right = expect(recorder.events().empty(), "an event has no time yet", 10, true);
  recorder.note_send(1, 8, 0);
  recorder.begin(second, false);
  recorder.note_work(Recorder::Did::reduce, 1, 8, 0);
  recorder.begin(first, false);
  recorder.note(Recorder::Did::wait, 1, 8, 0);
  auto events = recorder.events();
  if (!expect(events.size() == 4, "not 4 events", 10, true)) return false;
  bool at_once = events[0].start && events[0].start == events[1].start && events[0].end == events[1].start;
  right &= expect(at_once, "the copy has not the time of its message", 10, true);
  right &= expect(events[3].end > events[3].start, "a wait has no length", 10, true);
  bool named = events[0].call == 0 && events[1].call == 0 && events[2].call == 1 && events[3].call == 0;
  return right & expect(named && recorder.calls().size() == 2, "events of another call", 10, true);
}

// Who reads a recording has it until he is through, although it is ended or begun anew meanwhile.
bool is_kept_by_its_reader() {
  bool right = true;
  programs::World world(2);
  world.run([&](ringtree::Group& group, int rank) {
    ringtree::Hooks hooks;
    std::byte byte{};
    ringtree::Operation message[] = {{rank == 0, 1 - rank, 0, &byte, 1, static_cast<int>(ringtree::Dtype::uint8)}};
    if (rank == 0) group.record(10, hooks);
    group.exchange(message, hooks);
    if (rank != 0) return;
    auto calls = group.recorder(), messages = group.message_recorder();
    for (std::size_t most : {10, 0}) {
      group.record(most, hooks);
      right &= expect(calls->events().empty() && messages->events().size() == 1, "its reader finds others", 10, true);
      calls = group.recorder();
    }
    std::atomic<bool> through = false;
    std::thread reader([&] {
      while (!through)
        if (auto recorder = group.recorder()) (void)recorder->events();
    });
    for (int turn = 0; turn < 200; turn++) group.record(turn % 2 ? 0 : 10, hooks);
    through = true;
    reader.join();
  });
  return right;
}

}  // namespace

int main() {
  bool right = takes_the_time_of_the_next() & is_kept_by_its_reader();
  for (std::size_t most : {10, 5000, 200'000})
    for (bool lazily : {false, true}) right &= keeps_all(most, lazily);
  if (!right) return EXIT_FAILURE;
  std::printf("records of up to 200,000 events: all there\n");
}
