#include "health/family.h"

#include <algorithm>
#include <cstdio>

#include "health/health.h"
#include "waits/waiting.h"

namespace ringtree {

namespace {

const std::string mark = "; the first cause: ";
const std::string before = " s before) ";  // its age, of one that is old
constexpr std::int64_t old_ns = 10'000'000'000;

}  // namespace

std::string with_cause(const std::string& text, const std::optional<FirstCause>& cause) {
  if (!cause) return text;
  auto age_ns = cause->since_ns ? now_ns() - cause->since_ns : 0;
  if (age_ns < old_ns) return text + mark + cause->text;
  return text + mark + "(" + std::to_string(age_ns / 1'000'000'000) + before + cause->text;
}

std::string cause_in(const std::string& text) {
  auto at = text.find(mark);
  if (at == std::string::npos) return text;
  auto cause = text.substr(at + mark.size());
  auto age = cause.starts_with("(") ? cause.find(before) : std::string::npos;
  return age == std::string::npos ? cause : cause.substr(age + before.size());
}

void Family::join(Health& group, const std::vector<std::string>& names) {
  std::lock_guard lock(mutex_);
  groups_.insert(&group);
  for (std::size_t rank = 0; rank < names.size(); rank++)
    names_.emplace(group.number(static_cast<int>(rank)), names[rank]);
}

void Family::leave(Health& group) {
  std::lock_guard lock(mutex_);
  groups_.erase(&group);
}

void Family::tell(const FirstCause& cause) {
  std::lock_guard lock(mutex_);
  for (auto group : groups_) group->tell_cause(cause);
}

std::optional<FirstCause> Family::failure_since(std::int64_t ns) {
  std::lock_guard lock(mutex_);
  std::optional<FirstCause> first;
  for (auto group : groups_) {
    auto cause = group->cause_of_failure();
    if (cause && cause->since_ns >= ns && (!first || cause->since_ns < first->since_ns)) first = cause;
  }
  return first;
}

void Family::tell_wait(const Health& where, int awaited) {
  std::lock_guard lock(mutex_);
  for (auto group : groups_) group->tell_wait(awaited, group == &where);
}

void Family::end_wait(const Health& where, int awaited, bool gave_up) {
  std::lock_guard lock(mutex_);
  for (auto group : groups_) group->end_wait(awaited, group == &where, gave_up);
}

Family::Chain Family::chain(const Health& from, int begin) {
  std::lock_guard lock(mutex_);
  Chain chain{{begin}};
  for (;;) {
    auto last = chain.all.back();
    for (auto group : groups_)
      if (auto rank = group->rank_of(last); rank && group->stopped(*rank)) chain.stopped = true;
    auto next = chain.stopped ? std::nullopt : awaited_by(from, last);
    if (!next) return chain;
    chain.circle = std::ranges::find(chain.all, *next) != chain.all.end() || *next == from.number(from.rank());
    chain.all.push_back(*next);
    if (chain.circle) return chain;
  }
}

std::string Family::name(int number) {
  std::lock_guard lock(mutex_);
  auto found = names_.find(number);
  return "rank " + (found == names_.end() ? std::to_string(number) : found->second);
}

// With the mutex held. A wait in the group where the chain begins counts before those in others: a thread of its own
// may wait there for something else.
std::optional<int> Family::awaited_by(const Health& preferred, int number) {
  auto in = [&](const Health& group, bool own) -> std::optional<int> {
    auto rank = group.rank_of(number);
    return rank ? group.awaited_by(*rank, own) : std::nullopt;
  };
  if (auto found = in(preferred, true)) return found;
  for (auto group : groups_)
    if (auto found = in(*group, false)) return found;
  return {};
}

}  // namespace ringtree
