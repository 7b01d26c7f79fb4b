// The part of the interpreter that lends: bytes in a region are not copied, the peers read them where they lie.
//
// Whoever lent them waits before it overwrites them, which a sender with slots never would; so two ranks that lend each
// other what they then overwrite with what they received would wait for ever. To rule that out, a rank that waits to
// overwrite says that it is stuck, and whoever else waits, for anything, makes copies of what it was lent by it.
#include <iterator>

#include "interpreter/interpret.h"

namespace ringtree {

void Interpreter::add_region(Region region) {
  region_at_[region.base] = static_cast<int>(regions_.size());
  regions_.push_back(region);
}

// The region that holds these bytes; -1 if none does.
int Interpreter::region_of(const std::byte* begin, std::size_t nbytes) const {
  auto after = region_at_.upper_bound(begin);
  if (after == region_at_.begin()) return -1;
  int number = std::prev(after)->second;
  auto& region = regions_[number];
  return begin + nbytes <= region.base + region.nbytes ? number : -1;
}

// Waits until nobody reads these bytes in place any more.
void Interpreter::settle(const std::byte* begin, const std::byte* end) {
  auto& stuck = seat_.segment().member(seat_.rank()).stuck;
  std::erase_if(loans_, [&](const Loan& loan) {
    if (loan.end <= begin || end <= loan.begin) return false;
    if (repaid(loan)) return true;
    stuck.store(1, std::memory_order_relaxed);  // no more than a hint: others see it some time
    seat_.ring(loan.peer);
    repay(loan);
    return true;
  });
  if (stuck.load(std::memory_order_relaxed)) stuck.store(0, std::memory_order_relaxed);
}

bool Interpreter::repaid(const Loan& loan) const {
  return out_[loan.peer].released(loan.number) ||
         seat_.segment().lane_copied(seat_.rank(), loan.peer).load(std::memory_order_acquire) >= loan.number;
}

void Interpreter::repay(const Loan& loan) {
  if (repaid(loan)) return;
  stall();
  Question is_repaid([](auto& self, auto& loan) { return self.repaid(loan); }, this, &loan);
  seat_.until(is_repaid, loan.peer, *this, *hooks_);
  stalled(loan.peer);
}

bool Interpreter::help() {
  bool copied = false;
  for (int peer = 0; peer < seat_.ranks(); peer++)
    if (peer != seat_.rank() && seat_.segment().member(peer).stuck.load(std::memory_order_relaxed))
      copied |= copy_for_good(peer);
  return copied;
}

// Copies every message lent by a peer that has arrived and is not yet released; whether there was any.
bool Interpreter::copy_for_good(int peer) {
  auto& lane = in_[peer];
  auto number = std::max(copied_[peer], lane.released());
  auto before = number;
  while (lane.arrived(number + 1)) {
    auto& notice = lane.message(number + 1);
    if (notice.carrier() == Carrier::region && notice.place.base >= regions_.size()) break;  // of a call yet to come
    number++;
    if (notice.carrier() != Carrier::region) continue;
    auto data = in_region(notice, peer);
    copies_[{peer, number}].assign(data, data + notice.nbytes());
    for (auto& message : messages_)
      if (message.peer == peer && message.number == number) message.data = copies_[{peer, number}].data();
  }
  if (number == before) return false;
  copied_[peer] = number;
  // Pairs with the acquire in repaid(): the reads above are over before the lender writes.
  seat_.segment().lane_copied(peer, seat_.rank()).store(number, std::memory_order_release);
  seat_.ring(peer);
  return true;
}

// Where the bytes of a lent message can be read: in the region, or in the copy made of them.
const std::byte* Interpreter::in_region(const Notice& notice, int peer) {
  auto number = notice.number.load(std::memory_order_relaxed);
  if (auto copy = copies_.find({peer, number}); copy != copies_.end()) return copy->second.data();
  auto& place = notice.place;
  if (place.base >= regions_.size() || place.offset + notice.nbytes() > regions_[place.base].nbytes)
    seat_.fail(Failure::mismatch, -1,
               seat_.name(peer) + " sent bytes of a shared array that " + seat_.name(seat_.rank()) +
                   " does not have, in " + where() + ": every rank must make its shared arrays in the same order");
  return regions_[place.base].base + place.offset;
}

}  // namespace ringtree
