// The part of the interpreter that finds the way of a message's bytes: within the descriptor, from where they lie, or
// through a slot.
#include <algorithm>

#include "interpreter/interpret.h"

namespace ringtree {

namespace {

constexpr std::size_t worth_zero_copy = 4096;  // bytes; below, a copy takes less time than the completion

}  // namespace

// Whether the bytes of a lazy slot can be sent from the other target, or from the source of a copy: short ones because
// they travel within the descriptor, long ones if peers can read them where they lie (see zero_copy.cc), or if they all
// go to other hosts. Multicasts never lie in the sender's memory.
bool Interpreter::send_in_place(const PreparedProgram::Instruction& i, std::int64_t window, SendDescriptor& send) {
  const PreparedProgram::Operand* left = nullptr;
  for (int k = 0; k < i.targets; k++) {
    auto& o = plan_->operands[i.operand + k];
    if (o.space != Space::slot) left = &o;
  }
  bool fits = send.nbytes <= Descriptor::room;
  if (!left && i.kind == Kind::copy) {
    auto& o = plan_->operands[i.operand + i.targets];
    if (o.space == Space::message && fits) {
      send.data = packed(o, send.nbytes);
      return true;
    }
    if (o.space != Space::slot && o.space != Space::message) left = &o;
  }
  if (!left) return false;
  auto data = memory(*left, window, 0);
  if (!fits) {
    bool changes = plan_->finish && left->space == Space::output;
    bool multicasts = !each_receiver(i, [](int peer) { return peer >= 0; });
    if (send.nbytes < worth_zero_copy || changes || multicasts) return false;
    send.protocol = Protocol::zero_copy;
    if (leaves_host(i)) {
      send.region = anywhere;
    } else if (i.overwritten) {
      return false;
    } else if (!zero_copy_ || (send.region = region_of(data, send.nbytes)) < 0) {
      if (!single_copy_ || send.nbytes < peer_memory_.least_bytes() || !read_by_peers(i)) return false;
      if (!peer_memory_.is_readable(data, send.nbytes)) return false;
      send.region = anywhere;
      send.protocol = Protocol::single_copy;
    }
  }
  send.data = data;
  return true;
}

std::byte* Interpreter::stage(SendDescriptor& send) {
  if ((send.slot = outbox_.take(out_, send.nbytes)) < 0) {
    stall();
    waits_for_slot_ = true;
    int holder = -1;
    while ((send.slot = outbox_.take(out_, send.nbytes)) < 0) {
      holder = outbox_.holder(out_);
      Question has_moved([](auto& outbox, auto& lanes,
                            auto& holder) { return outbox.has_free(lanes) || outbox.holder(lanes) != holder; },
                         &outbox_, &out_, &holder);
      endpoint_.until(has_moved, holder, *this, *hooks_);
    }
    waits_for_slot_ = false;
    stalled(holder);
  }
  send.protocol = Protocol::copy;
  auto& segment = endpoint_.segment();
  bool fits = send.nbytes <= segment.layout().slot_bytes;
  auto at = fits ? outbox_.place(send.slot, send.nbytes, spreads()) : segment.overflow(endpoint_.rank(), send.slot);
  return segment.existing(at, send.nbytes);
}

// Whether this call's messages are spread over the room of their slots.
bool Interpreter::spreads() const {
  auto longest = static_cast<std::size_t>(std::max(plan_->input_bytes, plan_->output_bytes));
  return longest <= outbox_.room() && !endpoint_.oversubscribed();
}

void Interpreter::close(SendDescriptor& send) {
  if (send.slot >= 0) outbox_.close(send.slot);
  send.slot = -1;
}

}  // namespace ringtree
