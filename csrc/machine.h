// Primitives of the machine: cache lines, a pause in a spin, the clock, futexes.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace ringtree {

inline constexpr std::size_t cache_line = 64;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` is a no-op on most cores; isb takes about as long as x86's pause
#endif
}

inline std::int64_t read_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

inline std::int64_t now_ns() {
  return read_ns(CLOCK_MONOTONIC);
}

// For which this thread has had a core. A system call: some 200 ns.
inline std::int64_t thread_ns() {
  return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

// Sleeps while the word is `value`, at most `ns`. The word may be shared between processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t ns) {
  timespec t{ns / 1'000'000'000LL, ns % 1'000'000'000LL};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &t, nullptr, 0);
}

inline void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ringtree
