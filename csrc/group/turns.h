// Whose turn it is: a lock that is given in the order in which it was asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace ringtree {

class Turns {
 public:
  // A place in the queue, until it is destroyed: before its turn it is given up.
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(&turns), place_(turns.last_.fetch_add(1, std::memory_order_relaxed)) {}
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)), place_(other.place_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_) turns_->end(place_);
    }

    // Whether all who asked before have left. Pairs with end(): what they wrote is seen.
    bool come() const { return turns_->next_.load(std::memory_order_acquire) == place_; }

   private:
    Turns* turns_;
    std::uint64_t place_;
  };

 private:
  void end(std::uint64_t place) {
    std::lock_guard lock(mutex_);
    auto next = next_.load(std::memory_order_relaxed);
    if (place != next) {
      given_up_.insert(place);
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
