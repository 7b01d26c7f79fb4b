// The group's thread for messages: moves posted messages while the program computes and no thread waits here.
//
// It sleeps on a doorbell of its own, which peers ring when they have put something into a pipe or taken something out.
// The doorbell is armed (1) only while something is under way and no other thread of this process moves it. The thread
// that arms it looks at the pipes once more; a peer's store precedes its look at the doorbell, too
// (Endpoint::wake_progress_thread).
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace ringtree {

class ProgressThread {
 public:
  enum class Need { none, others_see_to_it, wanted };
  // The object that the thread works on.
  struct Duty {
    virtual ~Duty() = default;
    virtual bool move() noexcept = 0;  // moves what can be moved now; whether anything was
    virtual Need need() const noexcept = 0;
  };

  ProgressThread(std::atomic<std::uint32_t>& doorbell, Duty& duty) : doorbell_(doorbell), duty_(duty) {}
  ~ProgressThread() { stop(); }

  // The thread starts at the first call.
  void start();
  bool started() const { return thread_.joinable(); }

  // Has peers ring, if it is wanted. Looks at the pipes once more.
  void arm();
  // The same for a caller that looks at the pipes itself, after that.
  void expect_ring();
  // Somebody else sees to it: peers need not ring.
  void disarm() { doorbell_.store(0, std::memory_order_relaxed); }

  void stop();

 private:
  void loop();
  bool wanted() const { return duty_.need() == Need::wanted; }

  std::atomic<std::uint32_t>& doorbell_;
  Duty& duty_;
  std::atomic<bool> stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace ringtree
