// The steps of a wait (csrc/waits/waiting.h) and the lane it waits for, through every interleaving and every value that
// weak memory allows: every waiter goes on, no answer is lost, and a deadline is kept. Then the mutants, which must
// fail.
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "lanes/lane.h"
#include "waits/question.h"
#include "waits/waiting.h"
#include "weak_memory.h"

namespace {

using ringtree::Question;
using weak::Checker;

template <bool limited>
struct ModelSync {
  template <class T>
  using atomic = weak::Atomic<T>;
  static constexpr auto publish = std::memory_order_release, observe = std::memory_order_acquire,
                        give_back = std::memory_order_release, take_back = std::memory_order_acquire,
                        arm = std::memory_order_seq_cst;

  using Word = atomic<std::uint32_t>;
  static void futex_wait(Word& word, std::uint32_t value, std::int64_t) { word.sleep(value, limited); }
  static void futex_wake(Word&) {}  // who sleeps on a word goes on when it is stored to
};
using Limited = ModelSync<true>;
using Unlimited = ModelSync<false>;

struct TimedOut {};

// A wait of the shortest kind: one spin, one yield, then sleep. `deadline`: sleeps before it times out.
template <class S>
class Waiter {
 public:
  Waiter(typename S::Word& doorbell, int deadline) : doorbell_(doorbell), deadline_(deadline) {}
  int spins() const { return 1; }
  void pause() {}
  void yield() {}
  bool work() { return false; }
  bool tired() const { return true; }
  template <class Asked>
  void sleep(const Asked& question) {
    ringtree::Doorbell<S>(doorbell_).sleep(question, [] { return false; }, 1);
  }
  template <class Asked>
  void check(const Asked&) {
    if (Checker::instance()->slept() >= deadline_) throw TimedOut{};
  }

 private:
  typename S::Word& doorbell_;
  int deadline_;
};

template <class S>
void wait(const auto& question, typename S::Word& doorbell, int deadline) {
  Waiter<S> waiter(doorbell, deadline);
  if (question() || ringtree::spin(question, waiter)) return;
  ringtree::wait_slowly(question, waiter);
}

template <class S>
struct Entry {
  weak::Atomic<std::uint64_t> number;
  weak::Cell payload;
};

template <class S>
struct World {
  weak::Atomic<std::uint64_t> taken;
  std::vector<Entry<S>> entries;
  typename S::Word doorbell;
  World() : entries(1) {}
  ringtree::Sender<S, Entry<S>> sender() { return {taken, entries.data(), 1}; }
  ringtree::Receiver<S, Entry<S>> receiver() { return {taken, entries.data(), 1}; }
};

constexpr int never = 1 << 20;

// A receiver waits for a message, once; a sender publishes it and rings.
template <class S>
auto message() {
  return [](Checker& checker) {
    auto world = std::make_shared<World<S>>();
    checker.thread([=] {
      auto out = world->sender();
      out.blank().payload.write(7);
      out.publish();
      ringtree::Doorbell<S>(world->doorbell).ring();
    });
    checker.thread([=] {
      auto in = world->receiver();
      wait<S>(Question([](auto& in) { return in.ready(); }, &in), world->doorbell, never);
      Checker::instance()->expect(in.take().payload.read() == 7, "a wrong message");
    });
  };
}

// Two slots of a sender, behind a lane that holds both: as Outbox, which takes a slot only once the wait is over. With
// `takes`, the question itself takes one, as the engine's once did.
template <class S, bool takes>
auto slots() {
  return [](Checker& checker) {
    auto world = std::make_shared<World<S>>();
    checker.thread([=] {
      auto in = world->receiver();
      in.take();
      in.release();
      ringtree::Doorbell<S>(world->doorbell).ring();
    });
    checker.thread([=] {
      auto out = world->sender();
      out.publish();  // the lane's one entry, and the slot behind it, are the receiver's now
      int opened = 0;
      if constexpr (takes) {
        auto take = [&] { return out.released(1) && ++opened; };
        wait<S>(take, world->doorbell, never);
      } else {
        wait<S>(Question([](auto& out) { return out.released(1); }, &out), world->doorbell, never);
        opened++;
      }
      Checker::instance()->expect(opened == 1, "a slot that nobody names stays open");
    });
  };
}

// Nobody publishes: the wait ends at its deadline.
template <class S>
auto silence(int deadline) {
  return [=](Checker& checker) {
    auto world = std::make_shared<World<S>>();
    checker.thread([=] {
      auto in = world->receiver();
      bool timed_out = false;
      try {
        wait<S>(Question([](auto& in) { return in.ready(); }, &in), world->doorbell, deadline);
      } catch (TimedOut) {
        timed_out = true;
      }
      Checker::instance()->expect(timed_out, "a wait that ended with nothing");
    });
  };
}

// A question reaches nothing that it could change: others do not compile.
constexpr auto asks = [](const auto& x) { return x > 0; };
static_assert(ringtree::Pure<decltype(asks), int>);
auto taking(int& taken) {
  return [&taken] { return ++taken > 0; };
}
static_assert(!ringtree::Pure<decltype(taking(std::declval<int&>()))>);

}  // namespace

int main() {
  bool right = weak::check("a wait for a message", message<Limited>());
  right &= weak::check("a wait for a slot", slots<Limited, false>());
  right &= weak::check("a wait for nothing, with a deadline", silence<Limited>(2));
  right &= weak::check("a question that takes a slot", slots<Limited, true>(), "a slot that nobody names stays open");
  right &= weak::check("a sleep without a limit", message<Unlimited>(), "a deadlock");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
