// A small exhaustive checker of weak memory: runs a few threads through every interleaving of their atomic operations
// and every value a load may see, and reports data races, wrong results and deadlocks.
//
// The model is C++'s release/acquire with relaxed accesses, operationally: a location keeps all its writes; a thread
// has a view, the oldest write of each location it may still read; a release store set_protocol the view of its thread
// along, an acquire load takes it over. (What it leaves out: writes from the future, so-called load buffering; fences;
// what seq_cst orders beyond release and acquire.) A poll that fails changes nothing, so executions in which it could
// have been made later instead are passed over. So are those that only swap neighbouring operations that do not touch
// the same location: one of the two orders is enough. A plain access that is not ordered, by the views, after every
// conflicting one is a data race.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weak {

constexpr int most_threads = 4;
constexpr std::size_t stack_bytes = 64 * 1024;
using Clock = std::vector<int>;  // per thread: its own steps; then per location: a position in its writes

inline void join(Clock& a, const Clock& b) {
  if (a.size() < b.size()) a.resize(b.size(), 0);
  for (std::size_t i = 0; i < b.size(); i++)
    if (a[i] < b[i]) a[i] = b[i];
}
inline int at(const Clock& c, std::size_t i) {
  return i < c.size() ? c[i] : 0;
}

class Checker {
 public:
  struct Verdict {
    std::string failure;  // empty: none
    long runs = 0;
  };

  // Runs `scenario`, which calls thread() a few times, through all there is; stops at the first failure.
  static Verdict explore(const std::function<void(Checker&)>& scenario) {
    Checker checker;
    Verdict verdict;
    do {
      checker.begin();
      scenario(checker);
      checker.schedule();
      verdict.runs += !checker.redundant_;
      verdict.failure = checker.failure_;
    } while (verdict.failure.empty() && checker.next_path());
    return verdict;
  }

  void thread(std::function<void()> body) {
    auto& t = *threads_.emplace_back(std::make_unique<Thread>());
    t.body = std::move(body);
    if (stacks_.size() < threads_.size()) stacks_.push_back(std::make_unique<char[]>(stack_bytes));
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = stacks_[threads_.size() - 1].get();
    t.context.uc_stack.ss_size = stack_bytes;
    t.context.uc_link = nullptr;
    makecontext(&t.context, reinterpret_cast<void (*)()>(+[] { instance()->enter(); }), 0);
  }

  static Checker*& instance() {
    static Checker* now = nullptr;
    return now;
  }

  // Calls of threads.
  void expect(bool right, const char* what) {
    if (!right) fail(what);
  }
  // The last load was a poll, and failed.
  void park() {
    auto& t = *threads_[running_];
    auto& location = locations_[t.polled];
    if (at(t.view, t.polled) + 1 < static_cast<int>(location.writes.size())) {
      redundant_ = true;  // the newest write is left for another execution
    } else {
      t.parked = true;
      t.writes_seen = location.writes.size();
    }
    leave();
  }

  // Sleeps while the location's newest value is this one, as the kernel reads it. Time passes only when nobody can go
  // on: a sleeper with a limit wakes then, and sees every write so far.
  void sleep(int location, std::uint64_t value, bool limited) {
    step(location, false);
    auto& t = *threads_[running_];
    auto& writes = locations_[location].writes;
    see(t.view, location, static_cast<int>(writes.size()) - 1);
    if (writes.back().value != value) return;
    t.polled = location;
    t.parked = true;
    t.limited = limited;
    t.writes_seen = writes.size();
    leave();
  }
  // How often time has passed.
  int slept() const { return slept_; }

  // Calls of atomics and plain cells.
  int new_location(std::uint64_t value) {
    locations_.push_back({});
    locations_.back().writes.push_back({value, {}});
    return static_cast<int>(locations_.size()) - 1;
  }
  std::uint64_t load(int location, std::memory_order order) {
    step(location, false);
    auto& t = *threads_[running_];
    auto& writes = locations_[location].writes;
    int oldest = at(t.view, location), count = static_cast<int>(writes.size()) - oldest;
    int which = choose(count);
    t.polled = location;
    auto& write = writes[oldest + which];
    see(t.view, location, oldest + which);
    if (order == std::memory_order_acquire) join(t.view, write.view);
    return write.value;
  }
  void store(int location, std::uint64_t value, std::memory_order order) {
    step(location, true);
    auto& t = *threads_[running_];
    auto& writes = locations_[location].writes;
    see(t.view, location, static_cast<int>(writes.size()));
    writes.push_back({value, order == std::memory_order_relaxed ? Clock{} : t.view});
  }
  // Reads what is there, and puts `value` in its place if that is `expected`; it goes on with what the writes before it
  // release. (One that fails sees the newest write, too, which leaves out executions in which it fails once more.)
  bool exchange(int location, std::uint64_t& expected, std::uint64_t value, std::memory_order order) {
    step(location, true);
    auto& t = *threads_[running_];
    auto& writes = locations_[location].writes;
    auto last = writes.back();
    see(t.view, location, static_cast<int>(writes.size()) - 1);
    if (order == std::memory_order_acquire || order == std::memory_order_acq_rel) join(t.view, last.view);
    if (last.value != expected) {
      expected = last.value;
      return false;
    }
    see(t.view, location, static_cast<int>(writes.size()));
    if (order == std::memory_order_acq_rel) join(last.view, t.view);
    writes.push_back({value, last.view});
    return true;
  }
  // Plain accesses: a view begins with one entry a thread, which is the step of its last access.
  static std::size_t thread_entry(int thread) { return static_cast<std::size_t>(thread); }
  void plain(int& last_writer, int& last_write, int (&last_reads)[most_threads], bool is_write) {
    auto& t = *threads_[running_];
    auto mine = thread_entry(running_);
    if (last_writer >= 0 && last_writer != running_ && at(t.view, thread_entry(last_writer)) < last_write)
      fail("a data race with a write");
    if (is_write)
      for (int other = 0; other < most_threads; other++)
        if (other != running_ && at(t.view, thread_entry(other)) < last_reads[other]) fail("a data race with a read");
    int now = at(t.view, mine) + 1;
    see(t.view, mine, now);
    if (is_write) {
      last_writer = running_;
      last_write = now;
    } else {
      last_reads[running_] = now;
    }
  }

 private:
  struct Write {
    std::uint64_t value;
    Clock view;
  };
  struct Location {
    std::vector<Write> writes;
  };
  struct Operation {
    int location = -1;
    bool is_store = false;
    bool meets(const Operation& o) const { return location == o.location && (is_store || o.is_store); }
  };
  struct Thread {
    Operation next;
    std::function<void()> body;
    ucontext_t context;  // of its beginning
    jmp_buf place;
    Clock view;
    bool begun = false, done = false, parked = false, limited = false;
    int polled = 0;
    std::size_t writes_seen = 0;
  };
  struct Choice {
    int chosen, of;
  };

  static void see(Clock& view, std::size_t i, int position) {
    if (view.size() <= i) view.resize(i + 1, 0);
    view[i] = position;
  }

  void begin() {
    instance() = this;
    threads_.clear();
    locations_.assign(most_threads, {});  // none: their entries in a view are the threads'
    failure_.clear();
    depth_ = 0;
    slept_ = 0;
    redundant_ = false;
  }

  void enter() {
    auto& t = *threads_[running_];
    t.body();
    t.done = true;
    leave();
  }
  // A jump between stacks: swapcontext would ask the kernel for the mask of signals, which is most of what a run takes.
  void leave() {
    if (_setjmp(threads_[running_]->place) == 0) _longjmp(scheduler_, 1);
  }
  // Everything up to the next call belongs to this operation.
  void step(int location, bool is_store) {
    threads_[running_]->next = {location, is_store};
    leave();
  }
  [[noreturn]] void fail(const char* what) {
    failure_ = what;
    for (;;) leave();
  }

  void resume(int thread) {
    running_ = thread;
    if (_setjmp(scheduler_) != 0) return;
    auto& t = *threads_[thread];
    if (t.begun) _longjmp(t.place, 1);
    t.begun = true;
    setcontext(&t.context);
  }

  void schedule() {
    for (int i = 0; i < static_cast<int>(threads_.size()); i++) resume(i);  // up to its first operation
    int last = -1;
    Operation done;
    while (failure_.empty() && !redundant_) {
      int able[most_threads], count = 0;
      bool waiting = false;
      for (int i = 0; i < static_cast<int>(threads_.size()); i++) {
        auto& t = *threads_[i];
        if (t.done) continue;
        waiting = true;
        if (!t.parked || t.writes_seen < locations_[t.polled].writes.size()) able[count++] = i;
      }
      if (!waiting) return;
      if (count == 0) count = pass_time(able);
      if (count == 0) {
        failure_ = "a deadlock";
        return;
      }
      int next = able[choose(count)];
      auto operation = threads_[next]->next;
      if (next < last && !operation.meets(done)) {
        redundant_ = true;
        return;
      }
      last = next;
      done = operation;
      threads_[next]->parked = threads_[next]->limited = false;
      resume(next);
    }
  }

  // Wakes all who sleep with a limit, and returns how many they are.
  int pass_time(int (&able)[most_threads]) {
    int count = 0;
    for (int i = 0; i < static_cast<int>(threads_.size()); i++) {
      auto& t = *threads_[i];
      if (t.done || !t.parked || !t.limited) continue;
      for (std::size_t k = most_threads; k < locations_.size(); k++)
        see(t.view, k, static_cast<int>(locations_[k].writes.size()) - 1);
      able[count++] = i;
    }
    slept_ += count > 0;
    return count;
  }

  int choose(int of) {
    if (of == 1) return 0;
    if (depth_ == path_.size()) path_.push_back({0, of});
    return path_[depth_++].chosen;
  }
  bool next_path() {
    while (!path_.empty() && path_.back().chosen + 1 == path_.back().of) path_.pop_back();
    if (path_.empty()) return false;
    path_.back().chosen++;
    return true;
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Location> locations_;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::string failure_;
  std::vector<std::unique_ptr<char[]>> stacks_;
  jmp_buf scheduler_;
  int running_ = 0, slept_ = 0;
  bool redundant_ = false;
};

template <class T>
class Atomic {
 public:
  Atomic() : location_(Checker::instance()->new_location(0)) {}
  T load(std::memory_order order) const { return static_cast<T>(Checker::instance()->load(location_, order)); }
  void store(T value, std::memory_order order) { Checker::instance()->store(location_, value, order); }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order, std::memory_order) {
    std::uint64_t seen = expected;
    bool done = Checker::instance()->exchange(location_, seen, value, order);
    expected = static_cast<T>(seen);
    return done;
  }
  void sleep(T value, bool limited) { Checker::instance()->sleep(location_, value, limited); }

 private:
  int location_;
};

// Ordinary memory.
class Cell {
 public:
  int read() const {
    Checker::instance()->plain(writer_, written_, reads_, false);
    return value_;
  }
  void write(int value) {
    Checker::instance()->plain(writer_, written_, reads_, true);
    value_ = value;
  }

 private:
  int value_ = 0;
  mutable int writer_ = -1, written_ = 0, reads_[most_threads] = {};
};

// Explores a scenario and prints what came of it; whether that is as expected ("": no failure).
inline bool check(const char* name, const std::function<void(Checker&)>& scenario, const char* expected = "") {
  auto verdict = Checker::explore(scenario);
  bool right = *expected ? verdict.failure.find(expected) != std::string::npos : verdict.failure.empty();
  std::printf("%-58s %8ld executions  %s%s\n", name, verdict.runs,
              verdict.failure.empty() ? "right" : verdict.failure.c_str(),
              right ? (*expected ? ", as it should" : "") : "  UNEXPECTED");
  std::fflush(stdout);
  return right;
}

}  // namespace weak
