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
// `Sync` supplies the atomics, so that the tests can run this very code under a checker of weak memory.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

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

// The sender's end. `Entry` has a member `number`; `depth` is a power of two.
template <class Sync, class Entry>
class Sender {
 public:
  using Counter = typename Sync::template atomic<std::uint64_t>;

  Sender(Counter& taken, Entry* entries, std::uint64_t depth) : taken_(&taken), entries_(entries), mask_(depth - 1) {}

  bool room() const { return published_ - seen_ <= mask_ || (refresh(), published_ - seen_ <= mask_); }

  // Whether the receiver has given message `number` back.
  bool released(std::uint64_t number) const { return number <= seen_ || (refresh(), number <= seen_); }

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

  // The number of messages that the receiver has given back.
  std::uint64_t given_back() const {
    refresh();
    return seen_;
  }

 private:
  void refresh() const {
    seen_ = taken_->load(Sync::take_back);  // pairs with Receiver::release
    assert(seen_ <= published_);
  }

  Counter* taken_;
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
