// The group's own thread: runs asynchronous calls in the order of their tickets. A thread that waits for
// a call that has not begun runs the call itself, for a thread takes long to wake.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "waits/wait.h"

namespace ringtree {

class Worker {
 public:
  using Job = std::function<void(Hooks&)>;

  ~Worker() { stop(); }

  // Queues a job; the thread starts with the first. Returns its ticket, from 1. `at_once`: a job that waits for nobody,
  // which the caller runs itself where none is before it.
  std::uint64_t start(Job job, bool at_once = false);

  bool done(std::uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
  std::uint64_t issued() const { return issued_.load(std::memory_order_relaxed); }
  // Whether this thread runs a job: a signal's handler within it cannot wait for that job's end.
  bool performs_here() const {
    return performer_.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(pthread_self());
  }

  // Waits for a ticket; false when `timeout_s` (negative: none) passed first.
  bool wait(std::uint64_t ticket, double timeout_s, Hooks& hooks);

  // Whether the job of a ticket that is done threw, and its throwing.
  bool has_failed(std::uint64_t ticket);
  void raise(std::uint64_t ticket);
  // Whether a job threw while a caller waited for it, who raises it.
  bool failed_awaited() const;

  // Drops the jobs not yet begun and joins; a job that runs must end by itself.
  void stop();

 private:
  class Awaiting;

  void loop();
  void perform(std::unique_lock<std::mutex>& lock, Hooks& hooks);

  mutable std::mutex mutex_;
  std::condition_variable more_, less_;
  std::deque<Job> jobs_;
  std::map<std::uint64_t, std::exception_ptr> failed_;
  // Pairs: `completed_` is stored with release after a job, so a thread that sees a ticket done sees its results.
  std::atomic<std::uint64_t> issued_ = 0, completed_ = 0;
  std::atomic<std::uint64_t> performer_ = 0;  // the thread that runs a job
  bool running_ = false;                      // a job
  bool stopping_ = false;
  std::multiset<std::uint64_t> awaited_;  // tickets
  bool failed_awaited_ = false;
  std::thread thread_;
};

}  // namespace ringtree
