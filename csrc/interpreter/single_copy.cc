// The part of the interpreter that receives by reading the sender's memory (see PeerMemory): one copy, into the target,
// or block by block into a cache where more is done with it than a copy. Of a long copy the sender makes a part while
// it waits (see CooperativeCopy).
//
// To the sender this is a send without a copy: it waits for the completion before it overwrites the bytes, or returns.
// A call that fails frees its arrays while peers may still read them; so a reader asks, after it has read, whether the
// group has failed.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "interpreter/interpret.h"

namespace ringtree {

namespace {

constexpr std::size_t portion_bytes = 128 << 10;  // many pages to a system call, few enough for a core's own cache
constexpr std::int64_t death_ns = 200'000'000;    // until a process whose memory is gone is known to have ended

}  // namespace

void Interpreter::exchange_offers() {
  bool offered = peer_memory_.offer();
  if (peer_memory_.answer() || offered) ring_all();
}

void Interpreter::ring_all() {
  for (int peer = 0; peer < endpoint_.ranks(); peer++)
    if (peer != endpoint_.rank()) endpoint_.ring(peer);
}

// Waits for the peers' answers, once.
bool Interpreter::read_by_peers(const PreparedProgram::Instruction& i) {
  return each_receiver(i, [&](int peer) {
    if (endpoint_.elsewhere(peer)) return false;
    if (!peer_memory_.answered(peer)) {
      Question answered([](auto& memory, auto& peer) { return memory.answered(peer); }, &peer_memory_, &peer);
      endpoint_.until(answered, peer, *this, *hooks_);
    }
    return peer_memory_.read_by(peer);
  });
}

bool Interpreter::reads_peers(const PreparedProgram::Instruction& i) const {
  if (!attached_) return false;
  for (int k = i.targets; k < i.targets + i.sources; k++) {
    auto& o = plan_->operands[i.operand + k];
    if (o.space == Space::message && !messages_[o.reg].data && messages_[o.reg].nbytes) return true;
  }
  return false;
}

// As write(), of sources some of which are in peers' processes, `done` bytes behind the beginnings of the messages.
void Interpreter::write_from_peers(const PreparedProgram::Instruction& i, void* const* targets, int ntargets,
                                   std::size_t count, std::size_t done) {
  auto message_of = [&](int k) -> const Message* {
    auto& o = plan_->operands[i.operand + i.targets + k];
    return o.space == Space::message && !messages_[o.reg].data ? &messages_[o.reg] : nullptr;
  };
  if (i.kind == Kind::copy && ntargets == 1) {
    auto message = message_of(0);
    auto to = static_cast<std::byte*>(targets[0]);
    bool whole = done == 0 && count * plan_->item == message->nbytes;
    if (whole && both_ends_copy(message->there, to, message->nbytes)) return copy_with_sender(*message, to);
    return read(message->peer, message->there + done, to, count * plan_->item);
  }
  std::size_t far = 0;
  for (int k = 0; k < i.sources; k++) far += message_of(k) != nullptr;
  if (passing_.size() < portion_bytes * far) passing_.resize(portion_bytes * far);
  auto elements = portion_bytes / plan_->item;
  std::vector<const std::byte*> local(i.sources);
  for (int k = 0; k < i.sources; k++) local[k] = static_cast<const std::byte*>(sources_[k]);
  for (std::size_t first = 0; first < count; first += elements) {
    auto part = std::min(elements, count - first);
    auto at = first * plan_->item;
    void* parts[PreparedProgram::most_targets];
    for (int k = 0; k < ntargets; k++) parts[k] = static_cast<std::byte*>(targets[k]) + at;
    auto to = passing_.data();
    for (int k = 0; k < i.sources; k++) {
      sources_[k] = local[k] + at;
      if (auto message = message_of(k)) {
        read(message->peer, message->there + done + at, to, part * plan_->item);
        sources_[k] = to;
        to += portion_bytes;
      }
    }
    write(i, parts, ntargets, part);
  }
}

// As the work of move(), timed: by this a group chooses between single copies and staging (decision 0091).
void Interpreter::time_work(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes,
                            std::byte* slot) {
  struct Working {
    explicit Working(bool& is) : is(is) { is = true; }
    ~Working() { is = false; }
    bool& is;
  } working(working_);
  *hooks_->work_ns -= thread_ns();
  placed_.empty() ? apply(i, window, nbytes, slot) : reduce_into_peers(i, window, nbytes, slot);
  *hooks_->work_ns += thread_ns();
}

void Interpreter::read(int peer, std::uintptr_t from, std::byte* to, std::size_t nbytes) {
  auto error = peer_memory_.read(peer, from, to, nbytes);
  std::atomic_thread_fence(std::memory_order_acquire);
  auto& health = endpoint_.health();
  if (health.failed()) health.raise_failure();
  if (!error) return;
  for (auto start = now_ns(); now_ns() - start < death_ns; usleep(1000)) {
    endpoint_.check_for_dead(peer, *this);
    if (health.failed()) health.raise_failure();
  }
  auto me = endpoint_.name(endpoint_.rank());
  endpoint_.fail(Failure::mismatch, -1,
                 me + " could not read " + std::to_string(nbytes) + " bytes of " + endpoint_.name(peer) + " in " +
                     where() + " (" + std::strerror(error) + "): an array must stay where it is during a call");
}

}  // namespace ringtree
