#include "interpreter/interpret.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "interpreter/targets.h"

namespace ringtree {

const Interpreter::SendDescriptor Interpreter::bare{};

Interpreter::Interpreter(Endpoint& endpoint, std::size_t cache_bytes, std::size_t single_copy_bytes)
    : received(endpoint.ranks()),
      endpoint_(endpoint),
      out_{{}, endpoint.segment().multicast_out(endpoint.rank())},
      outbox_(endpoint.segment().outbox(endpoint.rank()), endpoint.segment().layout().slots,
              endpoint.segment().layout().outbox_bytes / endpoint.segment().layout().slots,
              endpoint.segment().layout().slot_bytes, !endpoint.oversubscribed()),
      peer_memory_(endpoint.segment(), endpoint.rank(), single_copy_bytes),
      cache_bytes_(cache_bytes),
      granted_(endpoint.ranks()),
      copied_(endpoint.ranks(), 0) {
  for (int peer = 0; peer < endpoint.ranks(); peer++) {
    out_.to.push_back(endpoint.segment().lane_out(endpoint.rank(), peer));
    in_.push_back(endpoint.segment().lane_in(peer, endpoint.rank()));
    multicasts_.push_back(endpoint.segment().multicast_in(peer, endpoint.rank()));
    staging_.push_back(endpoint.staging(peer));
    if (!endpoint.elsewhere(peer)) ranks_here_++;
  }
}

void Interpreter::run(const std::shared_ptr<PreparedProgram>& shared, std::uint64_t call, std::byte* input,
                      std::byte* output, Hooks& hooks) {
  PreparedProgram& plan = *shared;
  hooks_ = &hooks;
  record_call(plan, call);
  auto earlier = previous_.get();
  check_silent(earlier);
  if (endpoint_.confirms()) confirm();
  keep(shared);
  if (plan.scratch_bytes > scratch_bytes_) {
    scratch_ = std::make_unique<std::byte[]>(plan.scratch_bytes);
    scratch_bytes_ = plan.scratch_bytes;
  }
  if (static_cast<int>(send_descriptors_.size()) < plan.slot_registers) send_descriptors_.resize(plan.slot_registers);
  if (static_cast<int>(messages_.size()) < plan.message_registers) messages_.resize(plan.message_registers);
  if (static_cast<int>(sources_.size()) < plan.most_sources) sources_.resize(plan.most_sources);
  zero_copy_ = !regions_.empty() && (region_of(input, 0) >= 0 || region_of(output, 0) >= 0);
  past_caches_ = exceeds_caches(input, output);
  single_copy_ = plan.single_copy && peer_memory_.least_bytes();
  attached_ = cooperates_ = false;
  forget_grants();
  if (single_copy_) exchange_offers();
  if (zero_copy_ || past_caches_ || single_copy_) find_uses(plan, input, output);
  spaces_[static_cast<int>(Space::input)] = input;
  spaces_[static_cast<int>(Space::output)] = output;
  spaces_[static_cast<int>(Space::scratch)] = scratch_.get();
  outbox_.begin();
  auto relay = endpoint_.relay();
  try {
    run_windows();
  } catch (...) {
    withdraw_offers();
    if (relay) relay->keep_payloads();
    throw;
  }
  if (relay) relay->settle();
  check_silent(earlier);  // what has come since is no part of this call either
  assert(outbox_.open() == 0);
}

// Whether the arrays of this host's ranks, taken to be alike, are more than a cache holds.
bool Interpreter::exceeds_caches(const std::byte* input, const std::byte* output) const {
  auto nbytes =
      input == output ? std::max(plan_->input_bytes, plan_->output_bytes) : plan_->input_bytes + plan_->output_bytes;
  return static_cast<std::size_t>(nbytes) * ranks_here_ > cache_bytes_;
}

void Interpreter::run_windows() {
  recorder_ = recording_.load(std::memory_order_relaxed);
  if (recorder_) {
    recorder_->begin(plan_->print, sends_at_once());
    for (std::int64_t window = 0; window < plan_->windows; window++) run_window<true>(window);
  } else {
    for (std::int64_t window = 0; window < plan_->windows; window++) run_window<false>(window);
  }
  for (auto& send : zero_copy_sends_) await_completion(send);
  zero_copy_sends_.clear();
  if (single_copy_) await_offers();
}

void Interpreter::start_recording(std::size_t most, bool lazily) {
  recording_.store(nullptr, std::memory_order_relaxed);
  recording_.store(last_recorder_.begin(most, lazily), std::memory_order_relaxed);
}

// Without a recording the recorder costs nothing: the window then runs in another function.
template <bool recorded>
void Interpreter::run_window(std::int64_t window) {
  using Did = Recorder::Did;
  for (auto& i : plan_->instructions) switch (i.kind) {
      case Kind::copy:
      case Kind::reduce: {
        auto nbytes = move(i, window);
        if constexpr (recorded)
          if (nbytes) recorder_->note_work(i.kind == Kind::copy ? Did::copy : Did::reduce, i.peer, nbytes, i.chunk);
        break;
      }
      case Kind::signal:
        i.multicast ? multicast<recorded>(i) : signal<recorded>(i, window);
        break;
      case Kind::wait: {
        auto nbytes = wait(i);
        if constexpr (recorded) {
          if (auto relay = endpoint_.relay(); relay && relay->serves(i.peer))
            recorder_->note_arrival(i.peer, relay->arrival(i.peer, in_[i.peer].taken()));
          recorder_->note(Did::wait, i.peer, nbytes, i.chunk);
        }
        break;
      }
      case Kind::release:
        release<recorded>(i);
        break;
    }
  if (!plan_->finish) return;
  auto nbytes = finish(window);
  if constexpr (recorded)
    if (nbytes) recorder_->note_work(Did::reduce, -1, nbytes, -1);
}

// Whether a message is the first that takes time in it.
bool Interpreter::sends_at_once() const {
  auto& all = plan_->instructions;
  if (all.empty() || all[0].kind == Kind::signal) return !all.empty();
  bool works = all[0].kind == Kind::copy || all[0].kind == Kind::reduce;
  return works && bytes(all[0], 0) <= Recorder::short_work && all.size() > 1 && all[1].kind == Kind::signal;
}

// Called before and after a wait for room, and so off the path of calls that need not wait.
void Interpreter::stall() {
  if (recorder_) recorder_->stall();
}

void Interpreter::stalled(int peer) {
  if (recorder_) recorder_->note(Recorder::Did::stall, peer, 0, -1);
}

std::size_t Interpreter::elements(const PreparedProgram::Instruction& i, std::int64_t window,
                                  std::uint32_t piece) const {
  auto size = plan_->sizes[i.size + piece];
  if (plan_->windows > 1) size = std::clamp<std::int64_t>(size - window * plan_->window, 0, plan_->window);
  return static_cast<std::size_t>(size);
}

std::size_t Interpreter::bytes(const PreparedProgram::Instruction& i, std::int64_t window) const {
  std::size_t sum = 0;
  for (std::uint32_t piece = 0; piece < i.pieces; piece++) sum += elements(i, window, piece);
  return sum * plan_->item;
}

// A copy or a reduction; how many bytes it worked on. What goes into a slot is staged there, unless it may be sent from
// where it is anyway.
std::size_t Interpreter::move(const PreparedProgram::Instruction& i, std::int64_t window) {
  auto nbytes = bytes(i, window);
  std::byte* staging = nullptr;
  if (i.slots) {
    auto& send = send_descriptors_[i.reg];
    assert(send.slot < 0);
    send.nbytes = nbytes;
    send.protocol = Protocol::inlined;
    if (find_places(i, nbytes))
      send.protocol = Protocol::zero_copy;
    else if (!i.lazy || i.pieces != 1 || !send_in_place(i, window, send))
      send.data = staging = nbytes <= Descriptor::room ? send.small : stage(send);
  }
  bool works = staging || i.targets > i.slots || !placed_.empty();
  if (single_copy_ && works) offer_ahead(i, window);
  if (works && hooks_->work_ns)
    time_work(i, window, nbytes, staging);
  else if (!placed_.empty())
    reduce_into_peers(i, window, nbytes, staging);
  else if (works)
    apply(i, window, nbytes, staging);
  if (i.last) close(send_descriptors_[i.reg]);
  for (int k = i.targets; k < i.targets + i.sources; k++)
    if (auto& o = plan_->operands[i.operand + k]; o.last) close(send_descriptors_[o.reg]);
  return works ? nbytes : 0;
}

// The bytes a slot or a message register stands for, which must be as many as expected.
const std::byte* Interpreter::packed(const PreparedProgram::Operand& o, std::size_t nbytes) {
  bool is_message = o.space == Space::message;
  auto have = is_message ? messages_[o.reg].nbytes : send_descriptors_[o.reg].nbytes;
  if (is_message && have != nbytes)
    endpoint_.fail(Failure::mismatch, -1,
                   endpoint_.name(endpoint_.rank()) + " received " + std::to_string(have) +
                       " bytes where it expected " + std::to_string(nbytes) + " in " + where());
  return is_message ? messages_[o.reg].data : send_descriptors_[o.reg].data;
}

// Does the work of one instruction; `slot` is where its slot target lies, nullptr to leave that target out.
void Interpreter::apply(const PreparedProgram::Instruction& i, std::int64_t window, std::size_t nbytes,
                        std::byte* slot) {
  auto operands = &plan_->operands[i.operand];
  std::size_t done = 0;
  for (std::uint32_t piece = 0; piece < i.pieces; piece++) {
    auto count = elements(i, window, piece);
    if (count == 0) continue;
    void* targets[PreparedProgram::most_targets];
    int ntargets = 0;
    for (int k = 0; k < i.targets; k++) {
      auto& o = operands[k];
      if (o.space == Space::slot) {
        if (slot) targets[ntargets++] = slot + done;
        continue;
      }
      auto at = memory(o, window, piece);
      if (!zero_copy_sends_.empty()) settle(at, at + count * plan_->item);
      targets[ntargets++] = at;
    }
    for (int k = 0; k < i.sources; k++) {
      auto& o = operands[i.targets + k];
      bool is_packed = o.space == Space::slot || o.space == Space::message;
      sources_[k] = is_packed ? packed(o, nbytes) + done : memory(o, window, piece);
    }
    if (reads_peers(i))
      write_from_peers(i, targets, ntargets, count, done);
    else
      write(i, targets, ntargets, count);
    done += count * plan_->item;
  }
}

void Interpreter::write(const PreparedProgram::Instruction& i, void* const* targets, int ntargets, std::size_t count) {
  bool past_caches = past_caches_ && i.unread;
  if (i.kind == Kind::copy) return copy_to(targets, ntargets, sources_[0], count * plan_->item, past_caches);
  Sum sum{plan_->reduce, sources_.data(), i.sources, plan_->item};
  reduce_to(targets, ntargets, sum, count, past_caches);
}

template <bool recorded>
std::uint64_t Interpreter::publish(const PreparedProgram::Instruction& i, std::size_t nbytes) {
  auto number = out_[i.peer].publish();
  if constexpr (recorded) recorder_->note_send(i.peer, nbytes, i.chunk);
  return number;
}

// To wake a peer is a system call, and no part of what comes next.
template <bool recorded>
void Interpreter::ring(int peer) {
  bool woke = endpoint_.ring(peer);
  if constexpr (recorded)
    if (woke) recorder_->resume();
}

template <bool recorded>
void Interpreter::signal(const PreparedProgram::Instruction& i, std::int64_t window) {
  auto& lane = out_[i.peer];
  if (!lane.opened) endpoint_.segment().open(lane, endpoint_.rank(), i.peer);
  if (!lane.room()) {
    stall();
    endpoint_.until(Question([](auto& lane) { return lane.room(); }, &lane), i.peer, *this, *hooks_);
    stalled(i.peer);
  }
  if (i.reg < 0) {
    fill(lane.blank(), bare);
    publish<recorded>(i, 0);
    ring<recorded>(i.peer);
    return;
  }
  auto& send = send_descriptors_[i.reg];
  auto place = placed_.empty() ? nullptr : placed_at(i.peer);
  fill(lane.blank(), send, place);
  if (i.grant >= 0 && !place && send.protocol != Protocol::inlined)
    lane.blank().location.grant = grant(i, window, send.nbytes);
  auto number = publish<recorded>(i, send.nbytes);
  if (send.protocol == Protocol::copy && !place)
    outbox_.signalled(send.slot, i.peer, number);
  else if (send.protocol != Protocol::inlined && !place)
    note_zero_copy(i.peer, number, send);
  ring<recorded>(i.peer);
  if (i.last) {
    close(send);
    placed_.clear();
  }
}

// A message to all others, who read one descriptor.
template <bool recorded>
void Interpreter::multicast(const PreparedProgram::Instruction& i) {
  auto& lane = out_.to_all;
  int me = endpoint_.rank(), ranks = endpoint_.ranks();
  if (!lane.opened) endpoint_.segment().open(lane, me);
  if (!lane.room()) {
    stall();
    int last = -1;
    while (!lane.room()) {  // one after the other: a peer that has left gives nothing back
      last = lane.holder(lane.enough_for_room());
      Question has_moved([](auto& lane, auto& last) { return lane.holder(lane.enough_for_room()) != last; }, &lane,
                         &last);
      if (last >= 0) endpoint_.until(has_moved, last, *this, *hooks_);
    }
    stalled(last);
  }
  auto& send = i.reg < 0 ? bare : send_descriptors_[i.reg];
  fill(lane.blank(), send);
  auto number = lane.publish();
  if (send.protocol == Protocol::copy) outbox_.signalled(send.slot, OutgoingLanes::all, number);
  for (int k = 1, peer = me; k < ranks; k++) {
    peer = peer + 1 < ranks ? peer + 1 : 0;
    if constexpr (recorded) recorder_->note_send(peer, send.nbytes, i.chunk);
    ring<recorded>(peer);
  }
  if (i.last) close(send_descriptors_[i.reg]);
}

// Writes a message's descriptor, but for its number. `place`: where the bytes lie at the peer, if they do.
void Interpreter::fill(Descriptor& descriptor, const SendDescriptor& send, const Place* place) const {
  descriptor.print = plan_->print;
  descriptor.call = static_cast<std::uint32_t>(call_);
  auto protocol = place ? Protocol::zero_copy : send.protocol;
  descriptor.set_protocol(protocol, send.nbytes);
  if (protocol == Protocol::copy)
    descriptor.location = {outbox_.offset(send.data), 0};
  else if (protocol != Protocol::inlined)
    descriptor.location = place ? location(place->at, place->region) : location(send.data, send.region);
  else if (send.nbytes)
    std::memcpy(descriptor.payload, send.data, send.nbytes);
}

// The message's bytes.
std::size_t Interpreter::wait(const PreparedProgram::Instruction& i) {
  auto& lane = lane_of(i);
  if (!lane.ready()) endpoint_.until(Question([](auto& lane) { return lane.ready(); }, &lane), i.peer, *this, *hooks_);
  const Descriptor& descriptor = lane.front();
  check(i.peer, descriptor);
  lane.take();
  Message message;
  message.peer = i.peer;
  message.number = i.multicast ? 0 : lane.taken();
  message.nbytes = descriptor.nbytes();
  locate(descriptor, message);
  if (descriptor.protocol() != Protocol::inlined && descriptor.location.grant.number) note_grant(descriptor, message);
  received[i.peer].add(message.nbytes);
  if (i.reg >= 0) messages_[i.reg] = message;
  return message.nbytes;
}

void Interpreter::locate(const Descriptor& descriptor, Message& message) {
  switch (descriptor.protocol()) {
    case Protocol::inlined:
      message.data = descriptor.payload;
      break;
    case Protocol::copy:
      message.data = staging_[message.peer] + descriptor.location.base;
      break;
    case Protocol::zero_copy:
      message.data = in_region(descriptor, message.peer);
      break;
    case Protocol::single_copy:
      if (auto copy = copies_.find({message.peer, message.number}); copy != copies_.end())
        message.data = copy->second.data();
      else
        message.there = descriptor.location.offset, attached_ = true;
      break;
  }
}

template <bool recorded>
void Interpreter::release(const PreparedProgram::Instruction& i) {
  auto& lane = lane_of(i);
  if (!i.multicast && copied_[i.peer] > lane.released()) copies_.erase({i.peer, lane.released() + 1});
  lane.release();
  ring<recorded>(i.peer);
}

// Finishes the operation on this rank's results of this window, once, while they are in cache; returns their bytes.
std::size_t Interpreter::finish(std::int64_t window) {
  std::size_t nbytes = 0;
  for (auto& run : plan_->outputs) {
    auto size = std::clamp<std::int64_t>(run.size - window * plan_->window, 0, plan_->window);
    if (size == 0) continue;
    auto at = spaces_[static_cast<int>(Space::output)] +
              (run.offset + window * plan_->window) * static_cast<std::int64_t>(plan_->item);
    if (!zero_copy_sends_.empty()) settle(at, at + size * static_cast<std::int64_t>(plan_->item));
    plan_->finish(at, static_cast<std::size_t>(size), endpoint_.ranks());
    nbytes += static_cast<std::size_t>(size) * plan_->item;
  }
  return nbytes;
}

}  // namespace ringtree
