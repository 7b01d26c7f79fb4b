// The part of the interpreter that sends without a copy: bytes in a region are not staged, the peers read them in
// place. Others are not staged either where the peers can read this process's memory: single_copy.cc.
//
// The sender waits for the completion of such a send before it overwrites the bytes, which a sender with slots never
// does; so two ranks that send each other bytes which they then overwrite with received ones would wait for ever. To
// rule that out, a rank that waits to overwrite raises the flag `stuck`, and every rank that waits, for anything,
// copies the messages that the stuck rank sent in place.
#include <iterator>

#include "interpreter/interpret.h"

namespace ringtree {

void Interpreter::add_region(Region region) {
  if (region.base) region_at_[region.base] = static_cast<int>(regions_.size());
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

// Whether all who are sent a lazy slot are on other hosts: the bridge sends its bytes from where they lie. Their
// completion waits for the network alone, never for what a peer does.
bool Interpreter::leaves_host(const PreparedProgram::Instruction& i) const {
  if (!endpoint_.relay() || !endpoint_.relay()->sends_from_anywhere()) return false;
  return each_receiver(i, [&](int peer) { return endpoint_.elsewhere(peer); });
}

Descriptor::Location Interpreter::location(const std::byte* data, int region) const {
  if (region == anywhere) return {Descriptor::Location::memory, reinterpret_cast<std::uintptr_t>(data)};
  return {static_cast<std::uint64_t>(region), static_cast<std::uint64_t>(data - regions_[region].base)};
}

void Interpreter::note_zero_copy(int peer, std::uint64_t number, const SendDescriptor& send) {
  bool single_copy = send.protocol == Protocol::single_copy;
  zero_copy_sends_.push_back({peer, number, send.data, send.data + send.nbytes, single_copy});
  cooperates_ |= single_copy && CooperativeCopy<Sync>::blocks_of(send.nbytes);
}

// Waits until no peer reads these bytes in place any more.
void Interpreter::settle(const std::byte* begin, const std::byte* end) {
  auto& stuck = endpoint_.segment().member(endpoint_.rank()).stuck;
  std::erase_if(zero_copy_sends_, [&](const ZeroCopySend& send) {
    if (send.end <= begin || end <= send.begin) return false;
    if (complete(send)) return true;
    stuck.store(1, std::memory_order_relaxed);  // no more than a hint: others see it some time
    endpoint_.ring(send.peer);
    await_completion(send);
    return true;
  });
  if (stuck.load(std::memory_order_relaxed)) stuck.store(0, std::memory_order_relaxed);
}

bool Interpreter::complete(const ZeroCopySend& send) const {
  return out_[send.peer].released(send.number) ||
         endpoint_.segment().lane_copied(endpoint_.rank(), send.peer).load(std::memory_order_acquire) >= send.number;
}

void Interpreter::await_completion(const ZeroCopySend& send) {
  if (complete(send)) return;
  stall();
  Question is_complete([](auto& self, auto& send) { return self.complete(send); }, this, &send);
  await(is_complete, send.peer);
  stalled(send.peer);
}

bool Interpreter::help() {
  bool copied = endpoint_.relay() && endpoint_.relay()->advance();
  if (peer_memory_.answer()) ring_all();
  if (cooperates_) copied |= write_for_receivers();
  for (int peer = 0; peer < endpoint_.ranks(); peer++)
    if (peer != endpoint_.rank() && endpoint_.segment().member(peer).stuck.load(std::memory_order_relaxed))
      copied |= copy_for_good(peer);
  return copied;
}

// Copies every zero-copy message of a peer that has arrived and is not yet released; whether there was any.
bool Interpreter::copy_for_good(int peer) {
  auto& lane = in_[peer];
  auto number = std::max(copied_[peer], lane.released());
  auto before = number;
  while (lane.arrived(number + 1)) {
    auto& descriptor = lane.message(number + 1);
    if (descriptor.protocol() == Protocol::zero_copy && descriptor.location.base >= regions_.size())
      break;  // of a call yet to come
    if (descriptor.protocol() == Protocol::single_copy && !take_back(peer, number + 1)) break;
    number++;
    std::vector<std::byte> copy;
    if (descriptor.protocol() == Protocol::zero_copy) {
      auto data = in_region(descriptor, peer);
      copy.assign(data, data + descriptor.nbytes());
    } else if (descriptor.protocol() == Protocol::single_copy) {
      copy.resize(descriptor.nbytes());
      read(peer, descriptor.location.offset, copy.data(), copy.size());
    } else {
      continue;
    }
    auto& kept = copies_[{peer, number}];
    kept = std::move(copy);
    for (auto& message : messages_)
      if (message.peer == peer && message.number == number) message.data = kept.data();
  }
  if (number == before) return false;
  copied_[peer] = number;
  // Pairs with the acquire in complete(): the reads above are over before the sender writes.
  endpoint_.segment().lane_copied(peer, endpoint_.rank()).store(number, std::memory_order_release);
  endpoint_.ring(peer);
  return true;
}

// The address at which a zero-copy message's bytes can be read: in the region, or in the copy made of them.
const std::byte* Interpreter::in_region(const Descriptor& descriptor, int peer) {
  auto number = descriptor.number.load(std::memory_order_relaxed);
  if (auto copy = copies_.find({peer, number}); copy != copies_.end()) return copy->second.data();
  auto& location = descriptor.location;
  if (location.base >= regions_.size() || location.offset + descriptor.nbytes() > regions_[location.base].nbytes)
    endpoint_.fail(Failure::mismatch, -1,
                   endpoint_.name(peer) + " sent bytes of a shared array that " + endpoint_.name(endpoint_.rank()) +
                       " does not have, in " + where() + ": every rank must make its shared arrays in the same order");
  return regions_[location.base].base + location.offset;
}

}  // namespace ringtree
