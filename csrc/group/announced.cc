// The part of the group for calls whose programs run on a device: announced here, so that ranks compare their calls,
// threads that call at once are noticed, and a group that has failed makes no more.
#include "group/group.h"

namespace ringtree {

void Group::enter_call(const PreparedProgram& plan) {
  check_usable();
  note_caller();
  std::uint64_t none = 0;
  if (!in_call_.compare_exchange_strong(none, static_cast<std::uint64_t>(pthread_self()))) check_alone(plan);
}

void Group::leave_call() {
  if (in_call_.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(pthread_self()))
    in_call_.store(0, std::memory_order_relaxed);
}

void Group::announce(const std::shared_ptr<PreparedProgram>& plan) {
  check_usable();
  auto call = calls_.load(std::memory_order_relaxed) + 1;
  calls_.store(call, std::memory_order_relaxed);
  interpreter_->announce(plan, call);
}

void Group::report_interrupt(const PreparedProgram& plan) {
  auto where = std::string(collective_name(plan.print)) + ", call " + std::to_string(calls());
  endpoint_->health().report_failure(Failure::poisoned, -1, endpoint_->name(rank()) + " was interrupted in " + where);
}

void Group::report_timeout(const std::string& text, const std::vector<int>& ranks) {
  if (open_) endpoint_->health().report_failure(Failure::timed_out, -1, give_up(text, ranks));
}

void Group::report_mismatch(const std::string& text) {
  if (!open_) return;
  Health::Keeping keeping(endpoint_->health());
  try {
    interpreter_->compare_calls();
    endpoint_->health().report_failure(Failure::mismatch, -1, text);
  } catch (const Error&) {  // in better words, and for `check_liveness` to raise
  }
}

bool Group::is_lost(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent) {
  Health::Keeping keeping(endpoint_->health());
  try {
    check_liveness(what, ranks, absent);
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace ringtree
