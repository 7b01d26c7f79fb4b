// The part of the interpreter that writes a sum where its receivers want it: into their own memory.
//
// A rank whose program copies a peer's message to a place that nothing touches before (see find_grants) grants that
// place along with an earlier message, where it lies in a region. The peer writes the sum there, if that is just the
// message it sends next, and sends the place itself as a zero-copy message: the copy then has nothing to do.
//
// The order is that of the two messages: what the granter did to the place is over before the peer sees the grant, and
// what the peer wrote before the granter sees the sum. Between the two the place is the peer's alone; the granter waits
// for the sum, or fails. A call that fails may end while a peer still writes; so a writer asks, before every block,
// whether the group has failed.
#include <algorithm>

#include "interpreter/interpret.h"
#include "interpreter/stretch.h"
#include "kernels/copies.h"

namespace ringtree {

namespace {

constexpr std::size_t worth_placing = 4096;  // bytes; below, a copy takes little
constexpr std::size_t block = 8192;          // bytes; what is written into peers at most once the group has failed

}  // namespace

Descriptor::Grant Interpreter::grant(const PreparedProgram::Instruction& i, std::int64_t window,
                                     std::size_t nbytes) const {
  if (!zero_copy_ || nbytes < worth_placing || endpoint_.elsewhere(i.peer)) return {};
  auto at = memory(plan_->operands[i.grant], window, 0);
  int region = region_of(at, nbytes);
  if (region < 0) return {};
  for (auto& send : zero_copy_sends_)  // the message with the grant is not among them yet
    if (at < send.end && send.begin < at + nbytes && !complete(send)) return {};
  return {static_cast<std::uint64_t>(at - regions_[region].base), static_cast<std::uint32_t>(region),
          static_cast<std::uint32_t>(in_[i.peer].taken()) + static_cast<std::uint32_t>(i.ahead)};
}

void Interpreter::forget_grants() {
  placed_.clear();
  if (!any_granted_) return;
  for (auto& places : granted_) places.clear();
  any_granted_ = false;
}

void Interpreter::note_grant(const Descriptor& descriptor, const Message& message) {
  auto& location = descriptor.location;
  auto& grant = location.grant;
  auto nbytes = descriptor.nbytes();
  if (endpoint_.elsewhere(message.peer) || grant.region >= regions_.size()) return;
  auto& region = regions_[grant.region];
  if (grant.offset > region.nbytes || nbytes > region.nbytes - grant.offset) return;
  bool overwrites =
      descriptor.protocol() == Protocol::zero_copy && location.base == grant.region && location.offset == grant.offset;
  granted_[message.peer].push_back(
      {region.base + grant.offset, nbytes, static_cast<int>(grant.region), grant.number, message.number, overwrites});
  any_granted_ = true;
}

// Finds the places of the sum for those who are sent it; whether each of them has one.
bool Interpreter::find_places(const PreparedProgram::Instruction& i, std::size_t nbytes) {
  if (!any_granted_ || !i.placeable || nbytes < worth_placing || attached_) return false;
  bool everywhere = true;
  each_receiver(i, [&](int peer) {
    int released = 0;
    for (auto between = &i + 1; between->kind == Kind::release; between++)
      released += between->peer == peer && !between->multicast;
    auto place = granted_by(peer, nbytes, released);
    if (place) placed_.push_back({peer, *place});
    everywhere &= place != nullptr;
    return true;
  });
  return everywhere;
}

// The place that a peer has granted for the next message to it, if that may be written once so many more of the peer's
// messages are released; nullptr if there is none.
const Interpreter::Place* Interpreter::granted_by(int peer, std::size_t nbytes, int released) {
  auto& places = granted_[peer];
  auto next = out_[peer].published() + 1;
  std::erase_if(places, [&](auto& place) {
    return static_cast<std::int32_t>(place.number - static_cast<std::uint32_t>(next)) < 0;
  });
  for (auto& place : places) {
    if (place.number != static_cast<std::uint32_t>(next) || place.nbytes != nbytes) continue;
    if (place.overwrites && place.with > in_[peer].released() + released) continue;
    return &place;
  }
  return nullptr;
}

const Interpreter::Place* Interpreter::placed_at(int peer) const {
  auto found = std::ranges::find(placed_, peer, &std::pair<int, Place>::first);
  return found == placed_.end() ? nullptr : &found->second;
}

// As apply(), of one piece, and into the peers' places as well: a block is added up once, and copied from a near cache.
void Interpreter::reduce_into_peers(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes,
                                    std::byte* slot) {
  struct Target {
    std::byte* at;
    bool past_caches;
  };
  std::vector<Target> targets;
  auto operands = &plan_->operands[i.operand];
  for (int k = 0; k < i.targets; k++) {
    if (operands[k].space == Space::slot) {
      if (slot) targets.push_back({slot, false});
      continue;
    }
    targets.push_back({memory(operands[k], window, 0), past_caches_ && i.unread && k == 0});
    if (!zero_copy_sends_.empty()) settle(targets.back().at, targets.back().at + nbytes);
  }
  // What is overwritten has just been read, and is in a cache already.
  for (auto& [peer, place] : placed_) targets.push_back({place.at, past_caches_ && !place.overwrites});
  std::vector<const std::byte*> sources;
  for (int k = 0; k < i.sources; k++) {
    auto& o = operands[i.targets + k];
    sources.push_back(in_memory(o) ? memory(o, window, 0) : packed(o, nbytes));
  }
  alignas(cache_line) std::byte passing[block];
  auto& health = endpoint_.health();
  for (std::size_t at = 0; at < nbytes; at += block) {
    if (health.failed()) health.raise_failure();
    auto part = std::min(block, nbytes - at);
    auto sum = targets[0].past_caches ? passing : targets[0].at + at;
    for (int k = 0; k < i.sources; k++) sources_[k] = sources[k] + at;
    plan_->reduce(sum, sources_.data(), i.sources, part / plan_->item);
    for (auto& target : targets) {
      auto to = target.at + at;
      if (target.past_caches)
        copy_past_caches(to, sum, part);
      else if (to != sum)
        copy_bytes(to, sum, part);
    }
  }
}

}  // namespace ringtree
