// The groups of a process that are made of one world, and what they tell each other: a failure that the process heard
// of in one of them is the first cause of what fails in the others.
//
// What a process has to tell it writes into the memory of each group: there it is also read by members that are in no
// group with the culprit. A group that is made later does not hear of earlier failures, of which it knows already.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ringtree {

class Health;

// The first of several failures. `culprit`: its number in the world; -1: nobody in particular.
struct FirstCause {
  int culprit = -1;
  std::string text;
  std::int64_t since_ns = 0;
};

// An error's text, and its first cause, unless it says the same; and what a text has of its first cause: all of it,
// where it is the first itself.
std::string with_cause(const std::string& text, const std::optional<FirstCause>& cause);
std::string cause_in(const std::string& text);

class Family {
 public:
  void join(Health& group, const std::vector<std::string>& names);
  void leave(Health& group);

  // In all groups: that this process heard of a failure.
  void tell(const FirstCause& cause);
  // This process raises an error, or gives up a wait, which leaves its group whole: if it leaves groups in the next
  // second that were made before, that is why.
  void raises(const FirstCause& cause);
  std::optional<FirstCause> raised_lately(std::int64_t since_ns);
  // The first failure of a group since then, also of one whose failure this process has not heard of yet.
  std::optional<FirstCause> failure_since(std::int64_t ns);

  // Whether the process of a number of the world is stopped by a signal, as far as a group with it can see.
  bool stopped(int number);
  std::string name(int number);

 private:
  std::mutex mutex_;  // guards all below; a group's own lock is never taken with it
  std::set<Health*> groups_;
  std::map<int, std::string> names_;
  std::optional<FirstCause> raised_;
  std::int64_t raised_ns_ = 0;
};

}  // namespace ringtree
