// A lane: first in, first out, from one sender to one receiver, through shared memory.
//
// Message k (from 1) lies in entry (k-1) mod depth. The sender writes the entry and then stores k into entry.number
// with release; the receiver polls it with acquire, so a reader that sees k sees all writes before it (in the entry, in
// a slot, in a region). The receiver gives messages back in order by storing their count into `taken` with release; the
// sender reads it with acquire before it writes an entry, or a slot behind it, again, so the receiver's reads are over
// before the sender's writes. These two pairs are all the ordering there is. Counters never go back.
//
// Interpreter::wait polls Receiver::ready for collectives, Exchange::receive_some for messages between two ranks, and
// Bridge::relay for what goes to other hosts.
//
// A multicast is a lane with several receivers: one entry, which all of them read, and a count of messages given back
// for each.
//
// `Sync` supplies the atomics, so that the tests can run this very code under a checker of weak memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "machine.h"

namespace ringtree {

struct RealSync {
  template <class T>
  using atomic = std::atomic<T>;
  static constexpr auto publish = std::memory_order_release;  // a message; pairs with
  static constexpr auto observe = std::memory_order_acquire;
  static constexpr auto give_back = std::memory_order_release;  // what was taken; pairs with
  static constexpr auto take_back = std::memory_order_acquire;
  static constexpr auto arm = std::memory_order_seq_cst;  // a doorbell, before the last question

  using Word = std::atomic<std::uint32_t>;
  static void futex_wait(Word& word, std::uint32_t value, std::int64_t ns) { ringtree::futex_wait(word, value, ns); }
  static void futex_wake(Word& word) { ringtree::futex_wake(word); }
};

// How many messages the one receiver of a lane has given back; the sender asks whether they are `enough`.
template <class Sync>
struct GivenBack {
  using Counter = typename Sync::template atomic<std::uint64_t>;
  GivenBack(Counter& taken) : taken(&taken) {}
  std::uint64_t operator()(std::uint64_t /*enough*/) const {
    return taken->load(Sync::take_back);
  }  // pairs with Receiver::release
  Counter* taken;
};

// How many messages all receivers of a multicast have given back, each of which has a count of its own; or where one's
// are not enough, how many that one has.
template <class Sync>
struct GivenBackByAll {
  using Counter = typename Sync::template atomic<std::uint64_t>;
  std::uint64_t operator()(std::uint64_t enough) const {
    std::uint64_t least = UINT64_MAX;
    for (auto count : taken) {
      least = std::min<std::uint64_t>(least, count->load(Sync::take_back));  // pairs with Receiver::release of each
      if (least < enough) break;
    }
    return least;
  }
  // The first receiver, by its place, that has given back fewer than `enough`; none: how many there are.
  std::size_t behind(std::uint64_t enough) const {
    std::size_t k = 0;
    while (k < taken.size() && taken[k]->load(Sync::take_back) >= enough) k++;
    return k;
  }
  std::vector<Counter*> taken;
};

// The sender's end. `Entry` has a member `number`; `depth` is a power of two.
template <class Sync, class Entry, class Back = GivenBack<Sync>>
class Sender {
 public:
  Sender(Back back, Entry* entries, std::uint64_t depth)
      : back_(std::move(back)), entries_(entries), mask_(depth - 1) {}

  bool room() const {
    return published_ - seen_ <= mask_ || (refresh(published_ - mask_), published_ - seen_ <= mask_);
  }

  // Whether the receiver has given message `number` back.
  bool released(std::uint64_t number) const { return number <= seen_ || (refresh(number), number <= seen_); }

  // The entry to fill before publish(); only when there is room().
  Entry& blank() {
    assert(published_ - seen_ <= mask_);
    return entries_[published_ & mask_];
  }

  // Publishes the entry; returns the message's number.
  std::uint64_t publish() {
    Entry& entry = blank();
    entry.number.store(++published_, Sync::publish);  // pairs with Receiver::ready
    return published_;
  }

  std::uint64_t published() const { return published_; }
  const Back& back() const { return back_; }
  // How many messages must have been given back for room().
  std::uint64_t enough_for_room() const { return published_ < mask_ ? 0 : published_ - mask_; }

  // The number of messages that the receiver has given back.
  std::uint64_t given_back() const {
    refresh(0);
    return seen_;
  }

 private:
  // A count that is not enough may be of one receiver alone, and says nothing of the others.
  void refresh(std::uint64_t enough) const {
    if (auto count = back_(enough); count >= enough) seen_ = count;
    assert(seen_ <= published_);
  }

  Back back_;
  Entry* entries_;
  std::uint64_t mask_;
  std::uint64_t published_ = 0;
  // The last `taken` read: the line is fetched again only when this one no longer suffices.
  mutable std::uint64_t seen_ = 0;
};

// The receiver's end. Several messages may be held at once; they are given back in order.
template <class Sync, class Entry>
class Receiver {
 public:
  using Counter = typename Sync::template atomic<std::uint64_t>;

  Receiver(Counter& taken, Entry* entries, std::uint64_t depth) : taken_(&taken), entries_(entries), mask_(depth - 1) {}

  bool ready() const { return front().number.load(Sync::observe) == next_ + 1; }  // pairs with Sender::publish

  // The same for a message that lies further back: `number` counts from 1.
  bool arrived(std::uint64_t number) const {
    return number - released_ <= mask_ + 1 && entries_[(number - 1) & mask_].number.load(Sync::observe) == number;
  }

  const Entry& message(std::uint64_t number) const { return entries_[(number - 1) & mask_]; }

  // The next message; only when ready().
  const Entry& front() const { return entries_[next_ & mask_]; }

  const Entry& take() {
    assert(next_ - released_ <= mask_);
    return entries_[next_++ & mask_];
  }

  // Gives the oldest held message back.
  void release() {
    assert(released_ < next_);
    taken_->store(++released_, Sync::give_back);  // pairs with Sender::refresh
  }

  std::uint64_t taken() const { return next_; }
  std::uint64_t released() const { return released_; }
  std::uint64_t held() const { return next_ - released_; }

 private:
  Counter* taken_;
  const Entry* entries_;
  std::uint64_t mask_;
  std::uint64_t next_ = 0;
  std::uint64_t released_ = 0;
};

}  // namespace ringtree
