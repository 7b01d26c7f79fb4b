// The part of the interpreter that finds out that ranks called different things.
#include <unistd.h>

#include <utility>

#include "interpreter/interpret.h"
#include "waits/background.h"

namespace ringtree {

namespace {

constexpr std::int64_t check_ns = 50'000'000;  // as often as a slow wait looks

}  // namespace

void Interpreter::check(int peer, const Descriptor& descriptor) {
  if (descriptor.print == plan_->print && descriptor.call == static_cast<std::uint32_t>(call_)) return;
  // The upper half of the peer's call number is ours, or one less or more.
  auto behind = static_cast<std::int32_t>(descriptor.call - static_cast<std::uint32_t>(call_));
  if (behind > 0) compare(peer);  // a later call of the peer: its call of this number is the first that differs
  mismatch(peer, call_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(behind)), descriptor.print);
}

void Interpreter::mismatch(int peer, std::uint64_t peer_call, const Fingerprint& theirs) {
  std::uint64_t call = call_;
  Fingerprint mine = plan_->print;
  if (peer_call < call_) {  // it is the peer's earlier call that never fitted ours
    if (auto before = past(peer_call); before && !(before->print == theirs)) {
      call = peer_call;
      mine = before->print;
    }
  }
  auto& names = endpoint_.names();
  auto text = endpoint_.name(peer) + " called " + describe(theirs, names) + " as call " + std::to_string(peer_call) +
              " while " + endpoint_.name(endpoint_.rank()) + " called " + describe(mine, names) + " as call " +
              std::to_string(call);
  if (call == peer_call && theirs.code == mine.code && theirs.count == mine.count)
    text +=
        ", with other counts (of a call such as all_to_all_v) or shapes (of a list of arrays), with another schedule "
        "(as where RINGTREE_ALGORITHM, RINGTREE_DETERMINISTIC or RINGTREE_ACCUMULATE differ, or another version of "
        "ringtree is installed), or elements of another type that is moved as bytes";
  else if (theirs == mine)
    text += "; one of them made a call that the other did not make";
  endpoint_.fail(Failure::mismatch, -1, text);
}

// A message that lies unread in a lane from a peer that the last call only sent to, and is of that call or an earlier
// one, was never expected. To look costs nothing while nothing is there: the line stays in this core's cache.
void Interpreter::check_silent(const PreparedProgram* earlier) {
  if (!earlier) return;
  for (int peer : earlier->silent_peers) check_unread(peer, -1);
}

// Checks the next message in each lane from a peer if it is of a call that is at most `latest` behind this rank's.
void Interpreter::check_unread(int peer, std::int32_t latest) {
  for (auto lane : {&in_[peer], &multicasts_[peer]}) {
    if (!lane->ready()) continue;
    auto& descriptor = lane->front();
    if (static_cast<std::int32_t>(descriptor.call - static_cast<std::uint32_t>(call_)) <= latest)
      check(peer, descriptor);
  }
}

// Compares a call of this rank's, before the present one, with a peer's.
void Interpreter::compare_earlier(int peer, std::uint64_t call) {
  auto mine = past(call);
  auto theirs = endpoint_.health().call_of(peer, call);
  if (mine && theirs && !(*theirs == mine->print)) mismatch(peer, call, *theirs);
}

void Interpreter::record_call(const PreparedProgram& plan, std::uint64_t call) {
  call_ = call;
  plan_ = &plan;
  history_[call % history_.size()] = {call, plan.print};
  endpoint_.health().report_call(endpoint_.rank(), call, plan.print);
}

void Interpreter::keep(const std::shared_ptr<PreparedProgram>& plan) {
  if (previous_ == plan) return;
  earlier_ = std::move(previous_);
  previous_ = plan;
}

void Interpreter::announce(const std::shared_ptr<PreparedProgram>& plan, std::uint64_t call) {
  record_call(*plan, call);
  keep(plan);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with a neighbour's: one of both sees the other's call
  int ranks = endpoint_.ranks(), rank = endpoint_.rank();
  if (ranks > 1) compare((rank + 1) % ranks);
  if (ranks > 2) compare((rank + ranks - 1) % ranks);
}

void Interpreter::compare_calls() {
  if (!previous_) return;
  plan_ = previous_.get();
  auto first = call_ - std::min<std::uint64_t>(call_ - 1, history_.size() - 1);
  for (auto call = first; call <= call_; call++)
    for (int peer = 0; peer < endpoint_.ranks(); peer++)
      if (peer != endpoint_.rank()) compare_earlier(peer, call);
}

// Compares this rank's call with a peer's.
void Interpreter::compare(int peer) {
  auto theirs = endpoint_.health().call_of(peer, call_);
  if (theirs && !(*theirs == plan_->print)) mismatch(peer, call_, *theirs);
}

void Interpreter::check_last_call() {
  if (!previous_) return;
  plan_ = previous_.get();
  for (int peer = 0; peer < endpoint_.ranks(); peer++) {
    if (peer == endpoint_.rank()) continue;
    compare_earlier(peer, call_ - 1);
    compare(peer);
    check_unread(peer, 0);
    check_came(peer);
  }
}

// Whether a rank has left without this call.
bool Interpreter::never_comes(int peer) const {
  auto& health = endpoint_.health();
  return health.left(peer) && !health.has_begun(peer, call_);
}

bool Interpreter::was_missed_in_last_call() const {
  if (!previous_) return false;
  for (int peer = 0; peer < endpoint_.ranks(); peer++)
    if (peer != endpoint_.rank() && never_comes(peer) && !endpoint_.health().by_error(peer)) return true;
  return false;
}

// A rank that has closed the group makes no more calls: this one's last, if it only sent, has not reached it. That is
// no mismatch where it left because of a failure, which it has reported.
void Interpreter::check_came(int peer) {
  auto& health = endpoint_.health();
  if (!never_comes(peer) || health.by_error(peer)) return;
  auto text = endpoint_.name(peer) + " left the group without call " + std::to_string(call_) + ", which " +
              endpoint_.name(endpoint_.rank()) + " made: " + describe(plan_->print, endpoint_.names());
  auto cause = health.reported_by(peer);
  if (!cause) endpoint_.fail(Failure::mismatch, -1, text);
  health.report_failure(Failure::died, health.missed(cause->culprit).value_or(peer), with_cause(text, cause),
                        cause->culprit);
  health.raise_failure();
}

// A rank that closes hears of a mismatch only if the others have come so far; the last to come hears in any case. Other
// hosts hear when the ranks of this one agree.
void Interpreter::await_peers_in_last_call(std::int64_t ns) {
  if (!previous_) return;
  plan_ = previous_.get();
  auto until_ns = now_ns() + ns;
  await_peers_in_last_call(false, until_ns);
  auto relay = endpoint_.relay();
  if (!relay || endpoint_.health().failed()) return;
  for (int peer = 0; peer < endpoint_.ranks(); peer++)
    if (peer != endpoint_.rank()) {
      compare_earlier(peer, call_ - 1);
      compare(peer);
    }
  relay->announce_for_host(call_);
  await_peers_in_last_call(true, until_ns);
}

void Interpreter::await_peers_in_last_call(bool elsewhere, std::int64_t until_ns) {
  auto& health = endpoint_.health();
  for (std::int64_t checked_ns = now_ns();; usleep(100)) {
    bool looks = now_ns() - checked_ns > check_ns;
    auto comes = [&](int peer) {
      if (peer == endpoint_.rank() || endpoint_.elsewhere(peer) != elsewhere) return false;
      // A peer elsewhere that has long waited in this call has announced it without the one before.
      if (health.has_begun(peer, call_) && health.is_recorded(peer, call_ - 1)) return false;
      return !health.left(peer) && !(looks && health.died(peer));
    };
    bool all = true;
    for (int peer = 0; peer < endpoint_.ranks() && all; peer++) all = !comes(peer);
    if (all || health.failed() || now_ns() > until_ns) return;
    if (looks) checked_ns = now_ns();
    Background::advance_all();
  }
}

// Before anything is moved: waits until all ranks have begun this call, and compares.
void Interpreter::confirm() {
  if (auto relay = endpoint_.relay()) relay->announce_to_all(call_, plan_->print);
  ring_all();
  for (int peer = 0; peer < endpoint_.ranks(); peer++) {
    if (peer == endpoint_.rank()) continue;
    Question has_begun([](auto& health, auto& peer, auto& call) { return health.has_begun(peer, call); },
                       &std::as_const(endpoint_.health()), &peer, &call_);
    endpoint_.until(has_begun, peer, *this, *hooks_);
    compare(peer);
  }
}

std::string Interpreter::where() const {
  auto text = std::string(collective_name(plan_->print)) + ", call " + std::to_string(call_);
  if (!waits_for_slot_) return text;
  return text + " (for one of " + std::to_string(outbox_.slots()) + " staging slots, of which this call has " +
         std::to_string(outbox_.open()) + " open)";
}

// In a slow wait: compares this rank's call with those of the others, and looks for messages that no rank expects, and
// for a rank that has left: all wait in vain, also for others that are only slow.
void Interpreter::inspect() {
  if (auto relay = endpoint_.relay()) relay->announce(call_, plan_->print);
  for (int peer = 0; peer < endpoint_.ranks(); peer++) {
    if (peer == endpoint_.rank()) continue;
    compare(peer);
    check_unread(peer, -1);
    if (never_comes(peer)) {
      endpoint_.report_departure(peer, where());
      endpoint_.health().raise_failure();
    }
  }
}

const Interpreter::Past* Interpreter::past(std::uint64_t call) const {
  auto& entry = history_[call % history_.size()];
  return entry.call == call ? &entry : nullptr;
}

}  // namespace ringtree
