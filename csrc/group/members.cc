// The part of the group that sees to its members: who is alive, why one has not come, and a failure that all hear of.
#include "group/group.h"

namespace ringtree {

namespace {

// A wait that is not the engine's.
struct Elsewhere : Situation {
  explicit Elsewhere(const std::string& what) : what(what) {}
  std::string where() const override { return what; }
  const std::string& what;
};

}  // namespace

InheritedLiveness Group::inherited(const std::vector<int>& ranks) const {
  check_usable();
  return endpoint_->health().inherited(ranks);
}

void Group::check_liveness(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent) {
  Elsewhere elsewhere(what);
  check_usable();
  for (int rank : ranks) check_rank(rank);
  std::vector<int> missing;
  for (int position : absent) missing.push_back(ranks.at(position));
  endpoint_->check_liveness(ranks, missing, elsewhere);
}

int Group::begin_wait(const std::string& what, int rank, double timeout_s) {
  check_usable();
  check_rank(rank);
  auto now = now_ns();
  return endpoint_->write_down(now, now + static_cast<std::int64_t>(timeout_s * 1e9), rank, what);
}

void Group::end_wait(int place, bool gave_up) const {
  auto waits = place >= 0 && open_ && at_home() ? endpoint_->health().waits() : nullptr;
  if (waits) gave_up ? waits->give_up(place, now_ns()) : waits->end(place);
}

std::string Group::give_up(const std::string& text, const std::vector<int>& ranks) const {
  if (!open_ || !at_home()) return text;
  FirstCause why{-1, text, now_ns()};
  std::string caused = text;
  for (int rank : ranks) {
    check_rank(rank);
    auto cause = endpoint_->cause_of_delay(rank);
    caused = with_cause(text, cause);
    if (caused == text) continue;
    why.culprit = cause->culprit;
    why.text = cause->text;
    break;
  }
  endpoint_->health().family().raises(why);
  return caused;
}

void Group::fail_if_bereft(const std::string& what) {
  Elsewhere elsewhere(what);
  if (open_ && at_home()) endpoint_->fail_if_bereft(elsewhere);
}

void Group::poison(const std::string& message) {
  if (!open_) return;
  auto& health = endpoint_->health();
  health.report_failure(Failure::poisoned, -1, with_cause(message, health.reported_by(rank())), health.number(rank()));
}

void Group::tell_cause(const std::string& text) {
  if (!open_ || !at_home()) return;
  leaves_by_error_ = true;
  auto& health = endpoint_->health();
  health.tell_cause({health.number(rank()), cause_in(text), now_ns()});
  health.report_error(rank());
}

std::vector<Group::Peer> Group::peers() {
  std::vector<Peer> found;
  auto& health = endpoint_->health();
  for (int peer = 0; peer < ranks_; peer++) {
    auto& waited = endpoint_->waited(peer);
    auto state = health.left(peer) ? "left" : health.died(peer) ? "died" : "running";
    found.push_back({state, waited.waits.load(std::memory_order_relaxed),
                     static_cast<double>(waited.ns.load(std::memory_order_relaxed)) * 1e-9});
  }
  return found;
}

}  // namespace ringtree
