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
  receive->make_room(envelope.nbytes);
  where->erase(best);
  return receive;
}

void Matching::withdraw(Operation& receive) {
  queue(receive.peer).remove_if([&](auto& w) { return w.receive == &receive; });
}

UnexpectedMessage& Matching::keep(const Envelope& envelope) {
  auto& kept = unexpected_[envelope.source];
  std::unique_ptr<std::byte[]> bytes(envelope.nbytes ? new std::byte[envelope.nbytes] : nullptr);
  kept.push_back({envelope, std::move(bytes), 0, clock_++});
  return kept.back();
}

UnexpectedMessage* Matching::find(int source, int tag) {
  UnexpectedMessage* best = nullptr;
  int first = source == any ? 0 : source, last = source == any ? static_cast<int>(unexpected_.size()) - 1 : source;
  for (int from = first; from <= last; from++) {
    auto& kept = unexpected_[from];
    auto found = std::find_if(kept.begin(), kept.end(), [&](auto& l) { return fits(tag, l.envelope.tag); });
    if (found != kept.end() && (!best || found->arrival < best->arrival)) best = &*found;
  }
  return best;
}

UnexpectedMessage Matching::take(UnexpectedMessage& unexpected) {
  auto& kept = unexpected_[unexpected.envelope.source];
  auto found = std::find_if(kept.begin(), kept.end(), [&](auto& l) { return &l == &unexpected; });
  assert(found != kept.end());
  UnexpectedMessage taken = std::move(*found);
  kept.erase(found);
  return taken;
}

}  // namespace ringtree
