#include "health/family.h"

#include <algorithm>
#include <cstdio>

#include "health/health.h"
#include "waits/waiting.h"

namespace ringtree {

namespace {

const std::string mark = "; the first cause: ";
const std::string before = " s before) ";  // its age, of one that is old
constexpr std::int64_t old_ns = 10'000'000'000, lately_ns = 1'000'000'000;

}  // namespace

std::string with_cause(const std::string& text, const std::optional<FirstCause>& cause) {
  if (!cause || text.find(cause->text) != std::string::npos) return text;
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

void Family::raises(const FirstCause& cause) {
  std::lock_guard lock(mutex_);
  raised_ = cause;
  raised_ns_ = now_ns();
}

std::optional<FirstCause> Family::raised_lately(std::int64_t since_ns) {
  std::lock_guard lock(mutex_);
  return raised_ && raised_ns_ >= std::max(since_ns, now_ns() - lately_ns) ? raised_ : std::nullopt;
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

bool Family::stopped(int number) {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(groups_, [&](auto group) {
    auto rank = group->rank_of(number);
    return rank && group->stopped(*rank);
  });
}

std::string Family::name(int number) {
  std::lock_guard lock(mutex_);
  auto found = names_.find(number);
  return "rank " + (found == names_.end() ? std::to_string(number) : found->second);
}

}  // namespace ringtree
