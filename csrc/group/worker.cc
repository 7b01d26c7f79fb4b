#include "group/worker.h"

#include <chrono>

#include "memory/limits.h"

namespace ringtree {

namespace {

constexpr int yields = 64;  // tens of µs: a call that is about to end

}  // namespace

std::uint64_t Worker::start(Job job, bool at_once) {
  std::unique_lock lock(mutex_);
  if (stopping_) throw Error(Failure::poisoned, -1, "the group is closed");
  at_once = at_once && jobs_.empty() && !running_;
  if (!at_once && !thread_.joinable()) thread_ = start_thread("of non-blocking calls", [this] { loop(); });
  jobs_.push_back(std::move(job));
  auto ticket = issued_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (at_once) {
    Hooks none;
    perform(lock, none);
    return ticket;
  }
  more_.notify_one();
  return ticket;
}

void Worker::loop() {
  Hooks none;
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return stopping_ || (!jobs_.empty() && !running_); });
    if (stopping_) return;
    perform(lock, none);
  }
}

// Runs the next job, without the lock.
void Worker::perform(std::unique_lock<std::mutex>& lock, Hooks& hooks) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  running_ = true;
  performer_.store(static_cast<std::uint64_t>(pthread_self()), std::memory_order_relaxed);
  lock.unlock();
  std::exception_ptr error;
  bool interrupted = false;
  try {
    job(hooks);
  } catch (const Interrupted&) {  // raised here; a later query of the ticket throws `error`
    interrupted = true;
    error = std::make_exception_ptr(Error(Failure::poisoned, -1, "the call was interrupted"));
  } catch (...) {
    error = std::current_exception();
  }
  job = nullptr;
  lock.lock();
  running_ = false;
  performer_.store(0, std::memory_order_relaxed);
  auto ticket = completed_.load(std::memory_order_relaxed) + 1;
  if (error) failed_[ticket] = error;
  failed_awaited_ |= error && !interrupted && awaited_.contains(ticket);
  completed_.store(ticket, std::memory_order_release);
  less_.notify_all();
  if (!jobs_.empty()) more_.notify_one();
  if (interrupted) throw Interrupted{};
}

// While it lives, a caller waits for the ticket. Made with the lock held; its end takes it where that is not.
class Worker::Awaiting {
 public:
  Awaiting(Worker& worker, std::unique_lock<std::mutex>& lock, std::uint64_t ticket)
      : worker_(worker), lock_(lock), entry_(worker.awaited_.insert(ticket)) {}
  ~Awaiting() {
    if (!lock_.owns_lock()) lock_.lock();
    worker_.awaited_.erase(entry_);
  }
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

 private:
  Worker& worker_;
  std::unique_lock<std::mutex>& lock_;
  std::multiset<std::uint64_t>::iterator entry_;
};

bool Worker::wait(std::uint64_t ticket, double timeout_s, Hooks& hooks) {
  if (done(ticket)) return true;
  hooks.blocking();
  const auto start = now_ns();
  std::unique_lock lock(mutex_);
  Awaiting awaiting(*this, lock, ticket);
  if (timeout_s < 0)
    while (!done(ticket) && !running_ && !jobs_.empty() && !stopping_) perform(lock, hooks);
  if (done(ticket)) return true;
  lock.unlock();
  for (int i = 0; i < yields; i++) {
    if (done(ticket)) return true;
    sched_yield();
  }
  lock.lock();
  while (!done(ticket)) {
    if (stopping_) throw Error(Failure::poisoned, -1, "the group was closed before the call was done");
    if (timeout_s < 0 && !running_ && !jobs_.empty()) {
      perform(lock, hooks);
      continue;
    }
    double left = timeout_s < 0 ? 0.05 : std::min(0.05, timeout_s - static_cast<double>(now_ns() - start) * 1e-9);
    if (left <= 0) return false;
    // A time of day, for gcc 12's thread sanitizer does not know waits on the steady clock.
    auto until = std::chrono::system_clock::now() + std::chrono::microseconds(static_cast<int>(left * 1e6));
    if (less_.wait_until(lock, until) == std::cv_status::timeout) {
      lock.unlock();
      hooks.interrupted();
      lock.lock();
    }
  }
  return true;
}

bool Worker::has_failed(std::uint64_t ticket) {
  std::lock_guard lock(mutex_);
  return failed_.contains(ticket);
}

void Worker::raise(std::uint64_t ticket) {
  std::lock_guard lock(mutex_);
  auto found = failed_.find(ticket);
  if (found != failed_.end()) std::rethrow_exception(found->second);
}

bool Worker::failed_awaited() const {
  std::lock_guard lock(mutex_);
  return failed_awaited_;
}

void Worker::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
    more_.notify_all();
    less_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace ringtree
