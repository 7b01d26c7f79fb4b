// Every event that is noted is found in a record, in order, however often its memory grew; what it had no room for is
// counted.
#include <cstdio>
#include <cstdlib>

#include "interpreter/recorder.h"

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

}  // namespace

int main() {
  bool right = takes_the_time_of_the_next();
  for (std::size_t most : {10, 5000, 200'000})
    for (bool lazily : {false, true}) right &= keeps_all(most, lazily);
  if (!right) return EXIT_FAILURE;
  std::printf("records of up to 200,000 events: all there\n");
}
