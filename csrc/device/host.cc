#include "device/host.h"

#include <sched.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/flagged.h"
#include "device/interpreter.h"
#include "kernels/kernels.h"
#include "waits/wait.h"

namespace ringtree::device {

namespace {

constexpr uint64_t check_ns = 50'000'000;  // as often as a slow wait of the host's engine looks

// The waits of a thread's call, which the host may want to end.
struct Waiting {
  Hooks* hooks;
  uint64_t checked_ns;
};
thread_local Waiting waiting{};

// One thread, which is a block of its own.
struct Host {
  static constexpr uint32_t turns = 64;

  static int thread() { return 0; }
  static int threads() { return 1; }
  static void barrier() {}
  static bool any(bool it) { return it; }
  static bool stop(const volatile uint32_t* word) { return __atomic_load_n(word, __ATOMIC_RELAXED) != 0; }
  static uint64_t now_ns() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
  }
  static void pause(uint32_t) {
    sched_yield();
    if (auto now = now_ns(); now - waiting.checked_ns > check_ns) {
      waiting.checked_ns = now;
      waiting.hooks->interrupted();
    }
  }
  template <class T>
  static T acquire(const T* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  static uint64_t read(const uint64_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
  template <class T>
  static void write(T* at, T value) {  // a GPU's reads before have ended
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  template <class T>
  static void release(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  static void add(uint32_t* word) { __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); }
  static void report(Status* status, const Status& found) {
    if (status->outcome != fine) return;
    auto ended = status->ended;
    *status = found;
    status->ended = ended;
  }

  static void copy(Registers& shared, int targets, int source, int64_t nbytes) {
    for (int t = 0; t < targets; t++)
      if (shared.at(t) != shared.at(source)) std::memmove(shared.at(t), shared.at(source), static_cast<size_t>(nbytes));
  }

  static void reduce(const Arithmetic& arithmetic, Registers& shared, int targets, int first, int sources,
                     int64_t elements, int64_t nbytes) {
    const void* from[most_operands];
    for (int s = 0; s < sources; s++) from[s] = shared.at(first + s);
    auto count = static_cast<size_t>(elements);
    kernels().reduce[arithmetic.dtype][arithmetic.op](shared.at(0), from, sources, count);
    for (int t = 1; t < targets; t++) std::memcpy(shared.at(t), shared.at(0), static_cast<size_t>(nbytes));
  }

  template <int number>
  static void bring(const Piece (&pieces)[number]) {
    for (auto& piece : pieces)
      if (piece.nbytes) std::memcpy(piece.to, piece.from, static_cast<size_t>(piece.nbytes));
  }

  // As of Cuda: flagged sources are gathered, and what is made of all is sent to targets that are flagged.
  template <class MayCome>
  static bool exchange(const Arithmetic& arithmetic, const Step& step, uint8_t* const* at, const uint64_t* marks,
                       MayCome may_come) {
    auto nbytes = static_cast<size_t>(step.nbytes), whole = (nbytes + 15) / 16 * 16;
    std::vector<std::vector<uint8_t>> gathered;
    std::vector<const void*> from;
    for (int s = step.targets; s < step.targets + step.sources; s++) {
      from.push_back(at[s]);
      if (!marks[s]) continue;
      gathered.emplace_back(whole);
      if (!gather(at[s], marks[s], gathered.back(),
                  [&](uint32_t turn, uint64_t& since_ns) { return may_come(s, turn, since_ns); }))
        return false;
      from.back() = gathered.back().data();
    }
    std::vector<uint8_t> result(whole);
    if (step.kind == reducing)
      kernels().reduce[arithmetic.dtype][arithmetic.op](result.data(), from.data(), static_cast<int>(from.size()),
                                                        static_cast<size_t>(step.elements));
    else
      std::memcpy(result.data(), from[0], nbytes);
    for (int t = 0; t < step.targets; t++)
      if (marks[t])
        scatter(at[t], marks[t], result);
      else
        std::memcpy(at[t], result.data(), nbytes);
    return true;
  }

  // Flagged words: the bytes are written first, and read last.
  static void put(FlaggedWord* to, FlaggedWord word) {
    __atomic_store_n(&to->bytes, word.bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&to->mark, word.mark, __ATOMIC_RELEASE);
  }
  template <class MayCome>
  static bool gather(const uint8_t* from, uint64_t mark, std::vector<uint8_t>& to, MayCome may_come) {
    auto words = reinterpret_cast<const FlaggedWord*>(from);
    uint64_t since_ns = 0;
    for (size_t k = 0; k < to.size() / 8; k++) {
      for (uint32_t turn = 1; acquire(&words[k].mark) != mark; turn++)
        if (!may_come(turn, since_ns)) return false;
      uint64_t bytes = read(&words[k].bytes);
      std::memcpy(to.data() + k * 8, &bytes, 8);
    }
    return true;
  }
  static void scatter(uint8_t* to, uint64_t mark, const std::vector<uint8_t>& from) {
    auto words = reinterpret_cast<FlaggedWord*>(to);
    for (size_t k = 0; k < from.size() / 8; k++) {
      uint64_t bytes;
      std::memcpy(&bytes, from.data() + k * 8, 8);
      put(words + k, {bytes, mark});
    }
  }

  static void finish(const Arithmetic& arithmetic, uint8_t* data, int64_t elements, int ranks) {
    kernels().finish[arithmetic.dtype][arithmetic.op](data, static_cast<size_t>(elements), ranks);
  }
};

}  // namespace

void run_on_host(const Call& call, Hooks& hooks) {
  auto outer = std::exchange(waiting, {&hooks, Host::now_ns()});  // of a call that a signal's handler interrupts
  auto shared = std::make_unique<Registers>();
  auto resolved = std::make_unique<Resolved>();
  auto kept = std::make_unique<KeptTables>();
  for (int block = 0; block < call.blocks && call.status->outcome == fine; block++) {
    Tables<Host> tables(call, *kept, block);
    try {
      if (call.flagged)
        FlaggedInterpreter<Host>(call, tables, *resolved, block).run(block);
      else
        Interpreter<Host>(call, tables, *shared, block).run();
    } catch (...) {
      *call.stop = 1;
      waiting = outer;
      throw;
    }
  }
  waiting = outer;
}

}  // namespace ringtree::device
