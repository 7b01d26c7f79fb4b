// A lock that is granted in the order in which it was requested.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace ringtree {

class TicketLock {
 public:
  // A position in the queue, until the ticket is destroyed: a ticket may be given up before it is next.
  class Ticket {
   public:
    explicit Ticket(TicketLock& lock) : lock_(&lock), number_(lock.last_.fetch_add(1, std::memory_order_relaxed)) {}
    Ticket(Ticket&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)), number_(other.number_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (lock_) lock_->end(number_);
    }

    // Whether all earlier tickets have ended. Pairs with end(): the writes of their holders are seen.
    bool is_next() const { return lock_->next_.load(std::memory_order_acquire) == number_; }

   private:
    TicketLock* lock_;
    std::uint64_t number_;
  };

 private:
  void end(std::uint64_t number) {
    std::lock_guard lock(mutex_);
    auto next = next_.load(std::memory_order_relaxed);
    if (number != next) {
      given_up_.insert(number);
      return;
    }
    do next++;
    while (!given_up_.empty() && given_up_.erase(next));
    next_.store(next, std::memory_order_release);
  }

  std::atomic<std::uint64_t> last_ = 0, next_ = 0;
  std::mutex mutex_;
  std::set<std::uint64_t> given_up_;
};

}  // namespace ringtree
