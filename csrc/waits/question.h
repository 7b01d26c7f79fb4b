// The condition of a wait. A wait may evaluate it any number of times: evaluation changes nothing.
//
// The type holds a question to that. What asks is a lambda without captures, which reaches nothing but its arguments,
// and those are const. (A mutable member behind them may only remember what was read, as Sender's last count does.)
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

namespace ringtree {

template <class Ask, class... Of>
concept Pure = std::is_empty_v<Ask> && std::predicate<const Ask&, const Of&...>;

template <class Ask, class... Of>
  requires Pure<Ask, Of...>
class Question {
 public:
  // The arguments must outlive the question.
  explicit Question(Ask, const Of*... of) : of_(of...) {}
  bool operator()() const {
    return std::apply([](auto*... of) { return Ask{}(*of...); }, of_);
  }

 private:
  std::tuple<const Of*...> of_;
};

// A question of some kind, for code that is compiled once.
class AnyQuestion {
 public:
  template <class Ask, class... Of>
  explicit AnyQuestion(const Question<Ask, Of...>& question)
      : of_(&question), ask_([](const void* of) { return (*static_cast<const Question<Ask, Of...>*>(of))(); }) {}
  bool operator()() const { return ask_(of_); }

 private:
  const void* of_;
  bool (*ask_)(const void*);
};

}  // namespace ringtree
