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

// An error's text, and what it has of its first cause: all of it, where it is the first itself.
std::string with_cause(const std::string& text, const std::optional<FirstCause>& cause);
std::string cause_in(const std::string& text);

class Family {
 public:
  void join(Health& group, const std::vector<std::string>& names);
  void leave(Health& group);

  // In all groups: that this process heard of a failure.
  void tell(const FirstCause& cause);
  // The first failure of a group since then, also of one whose failure this process has not heard of yet.
  std::optional<FirstCause> failure_since(std::int64_t ns);

  // In all groups: that this process waits for long for a number of the world, in the group `where`; and not any
  // longer, because it has come or (`gave_up`) has not in time.
  void tell_wait(const Health& where, int awaited);
  void end_wait(const Health& where, int awaited, bool gave_up);

  // Whom a number of the world waits for in the end, by what processes of this host report of their waits: the last
  // of the chain that begins with it. A chain that comes back to where it was is a circle.
  struct Chain {
    std::vector<int> all;
    bool circle = false;
    bool stopped = false;  // the process of the last one is
  };
  Chain chain(const Health& from, int begin);

  std::string name(int number);

 private:
  std::optional<int> awaited_by(const Health& preferred, int number);

  std::mutex mutex_;  // guards all below; a group's own lock is never taken with it
  std::set<Health*> groups_;
  std::map<int, std::string> names_;
};

}  // namespace ringtree
