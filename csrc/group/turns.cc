// The part of the group that lets one call in at a time, and notices threads which call at once.
#include <unistd.h>

#include <algorithm>

#include "group/group.h"

namespace ringtree {

// Waits until it is this call's ticket. A host lock is let go before that. `alone`: a call that no other may be before.
void Group::await(const TicketLock::Ticket& ticket, Hooks& hooks, const PreparedProgram* alone) {
  if (!ticket.is_next()) {
    hooks.blocking();
    for (std::int64_t start = now_ns(), checked = start; !ticket.is_next();) {
      if (alone) check_alone(*alone);
      if (now_ns() - start < 1'000'000)
        sched_yield();
      else
        usleep(100);
      if (now_ns() - checked > 50'000'000) {
        checked = now_ns();
        hooks.interrupted();
      }
    }
  }
  if (endpoint_->stopping.load(std::memory_order_relaxed)) throw endpoint_->health().closed();
}

// Fails the group where another thread is in a call: which of the two comes first may differ from rank to rank, and
// calls that look alike would take each other's data.
void Group::check_alone(const PreparedProgram& plan) {
  auto other = in_call_.load(std::memory_order_relaxed);
  auto self = static_cast<std::uint64_t>(pthread_self());
  if (other == 0 || ranks_ == 1 || (endpoint_->takes_turns() && other != self)) return;
  constexpr int shown = 8;
  auto& names = endpoint_->names();
  std::string members;
  for (int rank = 0; rank < std::min(ranks_, shown); rank++) members += (rank ? ", " : "") + names[rank];
  if (ranks_ > shown) members += ", ...";
  auto call = calls();
  auto theirs = endpoint_->health().call_of(rank(), call);
  auto text = endpoint_->name(rank()) + " called " + describe(plan.print, names) + " in the group of ranks " + members +
              " while " +
              (other == self ? "the same thread" : "another of its threads (" + std::to_string(other) + ")") +
              " was in " + (theirs ? describe(*theirs, names) : std::string("a call")) + ", call " +
              std::to_string(call) + ": a group is for one thread at a time; make one for each, by comm.duplicate()";
  endpoint_->health().report_failure(Failure::poisoned, -1, text, endpoint_->health().number(rank()));
  endpoint_->health().raise_failure();
}

bool Group::is_within_call() const {
  return in_call_.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(pthread_self()) ||
         worker_->performs_here();
}

void Group::check_outside(const std::string& what) const {
  if (is_within_call())
    throw std::logic_error(
        endpoint_->name(rank()) + " called " + what +
        " in a signal's handler, within a call of the same group that cannot end before the handler does: let the "
        "handler raise an exception, which ends the call, or set a flag");
}

}  // namespace ringtree
