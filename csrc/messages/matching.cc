#include "messages/matching.h"

#include <algorithm>
#include <cassert>

namespace ringtree {

namespace {

bool fits(int wanted, int tag) {
  return wanted == tag || (wanted == any && tag >= 0);
}

}  // namespace

void Matching::wait(Operation& receive) {
  queue(receive.peer).push_back({clock_++, &receive});
}

Operation* Matching::claim(const Envelope& envelope) {
  Queue* where = nullptr;
  Queue::iterator best;
  for (Queue* queue : {&receives_[envelope.source], &receives_.back()}) {
    auto found =
        std::find_if(queue->begin(), queue->end(), [&](auto& w) { return fits(w.receive->tag, envelope.tag); });
    if (found == queue->end() || (where && best->since < found->since)) continue;
    where = queue;
    best = found;
  }
  if (!where) return nullptr;
  auto receive = best->receive;
  where->erase(best);
  return receive;
}

void Matching::withdraw(Operation& receive) {
  queue(receive.peer).remove_if([&](auto& w) { return w.receive == &receive; });
}

Letter& Matching::keep(const Envelope& envelope) {
  auto& letters = letters_[envelope.source];
  std::unique_ptr<std::byte[]> bytes(envelope.nbytes ? new std::byte[envelope.nbytes] : nullptr);
  letters.push_back({envelope, std::move(bytes), 0, clock_++});
  return letters.back();
}

Letter* Matching::find(int source, int tag) {
  Letter* best = nullptr;
  int first = source == any ? 0 : source, last = source == any ? static_cast<int>(letters_.size()) - 1 : source;
  for (int from = first; from <= last; from++) {
    auto& letters = letters_[from];
    auto found = std::find_if(letters.begin(), letters.end(), [&](auto& l) { return fits(tag, l.envelope.tag); });
    if (found != letters.end() && (!best || found->arrival < best->arrival)) best = &*found;
  }
  return best;
}

Letter Matching::take(Letter& letter) {
  auto& letters = letters_[letter.envelope.source];
  auto found = std::find_if(letters.begin(), letters.end(), [&](auto& l) { return &l == &letter; });
  assert(found != letters.end());
  Letter taken = std::move(*found);
  letters.erase(found);
  return taken;
}

}  // namespace ringtree
