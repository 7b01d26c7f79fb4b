// The part of the interpreter that makes long single copies by both ends of a message (see CooperativeCopy).
//
// The receiver offers where it wants the message when it begins to copy it; or before, so that senders write while the
// receiver copies something else, where the message has come and nothing in between touches that place. A call that
// fails frees its arrays; so it waits a while for its senders to have done with the blocks that they claimed.
//
// Where ranks share cores, who writes for another takes a core from a rank that copies itself: so no rank wants help
// that sends such messages, too, and a sender helps where a single one of its messages is offered.
#include <unistd.h>

#include <algorithm>

#include "interpreter/interpret.h"
#include "kernels/copies.h"

namespace ringtree {

namespace {

using Copy = CooperativeCopy<Sync>;

constexpr std::int64_t write_ns = 2'000'000'000;   // that a call which fails waits for blocks under way
constexpr std::size_t most_ahead = 8;              // messages offered ahead
constexpr std::size_t worth_offering = 256 << 10;  // bytes of a copy, during which others write

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

// Where the kernel would copy slowly (see is_just_behind), PeerMemory::read() knows how.
bool Interpreter::both_ends_copy(std::uintptr_t from, const std::byte* to, std::size_t nbytes) const {
  bool all_copy = endpoint_.oversubscribed() && cooperates_;
  return !all_copy && Copy::blocks_of(nbytes) && !is_just_behind(to, reinterpret_cast<const std::byte*>(from));
}

Interpreter::Offer& Interpreter::offer(int sender, std::uint64_t number, std::byte* to, std::size_t nbytes) {
  auto blocks = Copy::blocks_of(nbytes);
  auto copy = endpoint_.segment().cooperative_copy(sender, endpoint_.rank());
  auto& made = offers_.emplace_back(sender, number, to, blocks, copy);
  made.copy.offer(static_cast<std::uint32_t>(number), reinterpret_cast<std::uintptr_t>(to), blocks);
  endpoint_.ring(sender);
  return made;
}

// Copies a message from its sender's memory, as far as the sender does not write it.
void Interpreter::copy_with_sender(const Message& message, std::byte* to) {
  auto read_blocks = [&](std::size_t first, std::size_t end) {
    auto at = first * Copy::block, nbytes = std::min(end * Copy::block, message.nbytes) - at;
    read(message.peer, message.there + at, to + at, nbytes);
  };
  auto blocks = Copy::blocks_of(message.nbytes);
  auto ahead = std::ranges::find_if(offers_, [&](auto& offer) { return offer.sender == message.peer; });
  bool other = ahead != offers_.end() && (ahead->number != message.number || ahead->to != to);
  if (other) return read_blocks(0, blocks);
  auto& offered = ahead != offers_.end() ? *ahead : offer(message.peer, message.number, to, message.nbytes);
  auto& copy = offered.copy;
  offered.copying = true;
  std::uint32_t done = 0;
  while (auto mine = copy.claim_first()) {
    read_blocks(mine->first, mine->end);
    done = mine->end;
  }
  auto first = copy.withdraw();
  if (done < first) read_blocks(done, first);  // taken back before
  await_writes(offered);
  if (first < blocks && copy.was_refused(static_cast<std::uint32_t>(message.number))) read_blocks(first, blocks);
  std::erase_if(offers_, [&](auto& offer) { return offer.sender == message.peer; });
}

// Waits until the sender has done with the blocks that it claimed.
void Interpreter::await_writes(Offer& offer) {
  std::uint64_t theirs = offer.blocks - offer.copy.withdraw();
  Question wrote([](auto& copy, auto& theirs) { return copy.wrote(theirs); }, &offer.copy, &theirs);
  await(wrote, offer.sender);
}

// The wait between two instructions that takes the later one's message, if that is the next one of its lane.
const PreparedProgram::Instruction* Interpreter::wait_for(const PreparedProgram::Instruction& copy,
                                                          const PreparedProgram::Instruction& now) const {
  auto& source = plan_->operands[copy.operand + copy.targets];
  auto wait = &copy;
  while (wait > &now && !(wait->kind == Kind::wait && wait->reg == source.reg)) wait--;
  bool first = std::none_of(&now, wait, [&](auto& i) { return i.kind == Kind::wait && i.peer == wait->peer; });
  return source.space == Space::message && wait > &now && first ? wait : nullptr;
}

// Offers the targets of the copies that come after this one, as far as their messages are there.
void Interpreter::offer_ahead(const PreparedProgram::Instruction& now, std::int64_t window) {
  if (now.kind != Kind::copy || bytes(now, window) < worth_offering) return;
  auto end = plan_->instructions.data() + plan_->instructions.size();
  auto& source = plan_->operands[now.operand + now.targets];
  int sender = source.space == Space::message ? messages_[source.reg].peer : -1;  // whose own offer comes first
  for (auto next = &now + 1; next < end && offers_.size() < most_ahead; next++) {
    if (next->kind == Kind::wait || next->kind == Kind::release) continue;
    if (next->kind != Kind::copy || next->slots) return;
    auto wait = wait_for(*next, now);
    if (!wait || wait->multicast || next->targets != 1 || next->pieces != 1) continue;
    auto& lane = in_[wait->peer];
    if (!lane.ready() || lane.front().protocol() != Protocol::single_copy) continue;
    auto& descriptor = lane.front();
    auto nbytes = descriptor.nbytes();
    auto number = lane.taken() + 1;
    bool offered =
        wait->peer == sender || std::ranges::any_of(offers_, [&](auto& offer) { return offer.sender == wait->peer; });
    bool expected = descriptor.print == plan_->print && descriptor.call == static_cast<std::uint32_t>(call_) &&
                    nbytes == bytes(*next, window);
    auto to = memory(plan_->operands[next->operand], window, 0);
    if (offered || copied_[wait->peer] >= number || !expected ||
        !both_ends_copy(descriptor.location.offset, to, nbytes))
      continue;
    if (is_free(to, nbytes, &now, next, window)) offer(wait->peer, number, to, nbytes);
  }
}

// Whether nobody reads or writes these bytes from an instruction until before another.
bool Interpreter::is_free(const std::byte* at, std::size_t nbytes, const PreparedProgram::Instruction* first,
                          const PreparedProgram::Instruction* end, std::int64_t window) const {
  for (auto& send : zero_copy_sends_)
    if (overlap(at, nbytes, send.begin, static_cast<std::size_t>(send.end - send.begin))) return false;
  for (auto i = first; i < end; i++) {
    for (int k = 0; k < i->targets + i->sources; k++) {
      auto& o = plan_->operands[i->operand + k];
      if (o.space == Space::slot || o.space == Space::message) continue;
      for (std::uint32_t piece = 0; piece < i->pieces; piece++)
        if (overlap(at, nbytes, memory(o, window, piece), elements(*i, window, piece) * plan_->item)) return false;
    }
  }
  return true;
}

// Whether a message may be copied for good: it is not being copied, and nobody writes it to where it was offered.
bool Interpreter::take_back(int sender, std::uint64_t number) {
  for (auto& offer : offers_) {
    if (offer.sender != sender || offer.number != number) continue;
    if (offer.copying) return false;
    std::uint64_t theirs = offer.blocks - offer.copy.withdraw();
    if (!offer.copy.wrote(theirs)) return false;
  }
  return true;
}

// After the last instruction: what has been copied some other way is still offered.
void Interpreter::await_offers() {
  for (auto& offer : offers_) await_writes(offer);
  offers_.clear();
}

// For a call that fails: waits until no sender writes into its arrays any more, or for a while.
void Interpreter::withdraw_offers() {
  for (auto& offer : offers_) offer.copy.withdraw();
  auto began_ns = now_ns();
  for (auto& offer : offers_) {
    std::uint64_t theirs = offer.blocks - offer.copy.withdraw();
    while (!offer.copy.wrote(theirs) && now_ns() - began_ns < write_ns && !endpoint_.health().died(offer.sender))
      usleep(100);
  }
  offers_.clear();
}

// Writes blocks to each receiver that copies a message of this rank's; whether there was any.
bool Interpreter::write_for_receivers() {
  auto copy_of = [&](const ZeroCopySend& send) {
    return endpoint_.segment().cooperative_copy(endpoint_.rank(), send.peer);
  };
  auto offered = [&](const ZeroCopySend& send) {
    auto number = static_cast<std::uint32_t>(send.number);
    return send.single_copy && copy_of(send).offered(number) && !copy_of(send).was_refused(number);
  };
  if (endpoint_.oversubscribed() && std::ranges::count_if(zero_copy_sends_, offered) > 1) return false;
  bool any = false;
  for (auto& send : zero_copy_sends_) {
    auto number = static_cast<std::uint32_t>(send.number);
    auto nbytes = static_cast<std::size_t>(send.end - send.begin);
    auto copy = copy_of(send);
    if (!offered(send) || endpoint_.health().failed()) continue;
    auto claimed = copy.claim_last(number);
    if (!claimed) continue;
    auto began_ns = hooks_->work_ns ? thread_ns() : 0;
    auto at = claimed->first * Copy::block, end = std::min(claimed->end * Copy::block, nbytes);
    bool written = at < end && !endpoint_.health().failed() &&
                   !peer_memory_.write(send.peer, send.begin + at, copy.target() + at, end - at);
    copy.done(number, *claimed, written);
    endpoint_.ring(send.peer);
    if (hooks_->work_ns) *hooks_->work_ns += thread_ns() - began_ns;
    any = true;
  }
  return any;
}

}  // namespace ringtree
