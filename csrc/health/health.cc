#include "health/health.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "waits/waiting.h"

namespace ringtree {

Health::Health(Segment& segment, int rank, InheritedLiveness inherited)
    : segment_(segment),
      rank_(rank),
      watch_(segment, std::move(inherited), rank),
      made_ns_(now_ns()),
      left_here_(segment.layout().ranks) {}

void Health::report_left(int rank) {
  member(rank).left.store(1, std::memory_order_release);  // pairs with left(): what was sent is out
  wake_others();
}

void Health::report_left_here(int rank) {
  left_here_[rank].store(true, std::memory_order_release);
}

void Health::report_error(int rank) {
  member(rank).by_error.store(1, std::memory_order_relaxed);  // seen by who finds that it has left
}

void Health::report_lost(int rank, const std::string& why) {
  auto& lost = member(rank);
  std::uint32_t none = 0;
  if (!lost.lost.compare_exchange_strong(none, 1, std::memory_order_relaxed)) return;
  std::strncpy(lost.why, why.c_str(), sizeof lost.why - 1);
  lost.lost.store(2, std::memory_order_release);  // pairs with how_died()
  wake_others();
}

// A sequence lock, read by others only when a wait is slow.
void Health::report_call(int rank, std::uint64_t call, const Fingerprint& print) {
  auto& record = member(rank).calls[call % Member::remembered];
  record.version.store(2 * call - 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // pairs with the acquire fence in call_of()
  record.count.store(print.count, std::memory_order_relaxed);
  record.code_digest.store(std::uint64_t(print.code) << 32 | print.digest, std::memory_order_relaxed);
  record.version.store(2 * call, std::memory_order_release);  // pairs with the first load in call_of()
}

bool Health::is_recorded(int rank, std::uint64_t call) const {
  return member(rank).calls[call % Member::remembered].version.load(std::memory_order_acquire) >= 2 * call;
}

std::optional<Fingerprint> Health::call_of(int rank, std::uint64_t call) const {
  auto& record = member(rank).calls[call % Member::remembered];
  if (record.version.load(std::memory_order_acquire) != 2 * call) return {};
  auto count = record.count.load(std::memory_order_relaxed);
  auto both = record.code_digest.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (record.version.load(std::memory_order_relaxed) != 2 * call) return {};
  return Fingerprint{count, static_cast<std::uint32_t>(both >> 32), static_cast<std::uint32_t>(both)};
}

std::uint64_t Health::last_call(int rank) const {
  std::uint64_t last = 0;
  for (auto& record : member(rank).calls)
    last = std::max(last, record.version.load(std::memory_order_acquire) / 2);  // pairs as in call_of()
  return last;
}

bool Health::has_begun(int rank, std::uint64_t call) const {
  return last_call(rank) >= call;
}

bool Health::died(int rank) const {
  if (rank == rank_ || left(rank)) return false;
  if (member(rank).lost.load(std::memory_order_acquire)) return true;
  return watch_.ended(rank) && !left(rank);  // it may have left in between
}

std::string Health::how_died(int rank) const {
  auto& lost = member(rank);
  if (auto state = lost.lost.load(std::memory_order_acquire))
    return state == 2 && *lost.why ? "is out of reach (it " + std::string(lost.why) + ")" : "is out of reach";
  return "died (process " + std::to_string(watch_.process(rank)) + " ended)";
}

void Health::report_failure(Failure kind, int rank, const std::string& text, int culprit) {
  if (!write_failure(kind, rank, text, culprit)) return;
  hear();
  if (observer_) observer_->failed(kind, rank, text);
}

void Health::report_foreign_failure(Failure kind, int rank, const std::string& text) {
  write_failure(kind, rank, text, -1);
}

// Whether this failure is the first.
bool Health::write_failure(Failure kind, int rank, const std::string& text, int culprit) {
  auto& poison = segment_.header().poison;
  std::uint32_t none = 0;
  if (!poison.state.compare_exchange_strong(none, 1, std::memory_order_relaxed)) return false;
  poison.kind = static_cast<std::uint32_t>(kind);
  poison.rank = rank;
  poison.culprit = culprit < 0 && rank >= 0 ? number(rank) : culprit;
  poison.since_ns = now_ns();
  std::strncpy(poison.text, text.c_str(), sizeof poison.text - 1);
  poison.state.store(2, std::memory_order_release);  // pairs with raise_failure()
  wake_others();
  return true;
}

std::optional<Error> Health::failure() const {
  auto& poison = segment_.header().poison;
  if (poison.state.load(std::memory_order_acquire) != 2) return {};
  return Error(static_cast<Failure>(poison.kind), poison.rank, poison.text);
}

// The rank that set the state to 1 writes a few hundred bytes and goes on, unless it was killed just there.
std::optional<Error> Health::await_failure() const {
  if (!failed()) return {};
  for (std::int64_t until = now_ns() + 1'000'000'000; now_ns() < until; sched_yield())
    if (auto written = failure()) return written;
  return Error(Failure::poisoned, -1, "the group failed; its reason was never written");
}

void Health::raise_failure() {
  auto& poison = segment_.header().poison;
  if (auto error = await_failure(); error && poison.state.load(std::memory_order_relaxed) != 2) throw *error;
  hear();
  bool keeps = keeper_.load(std::memory_order_relaxed) == pthread_self();
  if (keeps ? raised() : raised_.exchange(true, std::memory_order_relaxed))
    throw Error(Failure::poisoned, -1,
                std::string("this group failed before (") + poison.text + "); close it and make another", true);
  raises();
  throw Error(static_cast<Failure>(poison.kind), poison.rank, poison.text);
}

void Health::kept_is_raised() {
  raised_.store(true, std::memory_order_relaxed);
  raises();
}

void Health::raises() {
  if (auto cause = cause_of_failure()) family().raises(*cause);
}

void Health::hear() {
  if (heard_.exchange(true, std::memory_order_relaxed)) return;
  if (auto cause = cause_of_failure()) family().tell(*cause);
}

std::optional<FirstCause> Health::cause_of_failure() const {
  auto& poison = segment_.header().poison;
  if (poison.state.load(std::memory_order_acquire) != 2) return {};
  return FirstCause{poison.culprit, cause_in(poison.text), poison.since_ns};
}

Error Health::closed() const {
  return Error(Failure::poisoned, -1, with_cause("the group is closed", cause_of_failure()));
}

void Health::report_cause(int rank, const FirstCause& cause) {
  auto& reported = member(rank).cause;
  std::uint32_t none = 0;
  if (!reported.state.compare_exchange_strong(none, 1, std::memory_order_relaxed)) return;
  reported.culprit = cause.culprit;
  reported.since_ns = cause.since_ns;
  std::strncpy(reported.text, cause.text.c_str(), sizeof reported.text - 1);
  reported.state.store(2, std::memory_order_release);  // pairs with reported_by(); the member leaves later, or dies
}

std::optional<FirstCause> Health::reported_by(int rank) const {
  auto& reported = member(rank).cause;
  if (reported.state.load(std::memory_order_acquire) != 2) return {};
  return FirstCause{reported.culprit, reported.text, reported.since_ns};
}

std::optional<FirstCause> Health::cause_of_leaving(int rank) const {
  if (auto reported = reported_by(rank)) return reported;
  if (auto heard = reported_by(rank_)) return heard;
  return family().failure_since(made_ns_);
}

std::optional<FirstCause> Health::why_leaving() const {
  auto reported = reported_by(rank_);
  return reported ? reported : family().raised_lately(made_ns_);
}

int Health::number(int rank) const {
  auto& bytes = watch_.bytes();
  return bytes.empty() ? rank : bytes[rank];
}

std::optional<int> Health::rank_of(int number) const {
  for (int rank = 0; rank < segment_.layout().ranks; rank++)
    if (this->number(rank) == number) return rank;
  return {};
}

std::optional<int> Health::missed(int culprit) const {
  auto rank = culprit < 0 ? std::nullopt : rank_of(culprit);
  if (!rank || *rank == rank_) return {};
  return left(*rank) || died(*rank) || last_call(*rank) < last_call(rank_) ? rank : std::nullopt;
}

void Health::join_family(const std::vector<std::string>& names) {
  family().join(*this, names);
}

void Health::leave() {
  family().leave(*this);
  report_left(rank_);
  watch_.end();
}

void Health::wake_others() {
  for (int peer = 0; peer < segment_.layout().ranks; peer++)
    if (peer != rank_) Doorbell<Sync>(member(peer).doorbell).ring();
}

}  // namespace ringtree
