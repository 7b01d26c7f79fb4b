// Counters of messages from a peer: written by one thread at a time, read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringtree {

struct Received {
  std::atomic<std::int64_t> bytes = 0, messages = 0;

  void add(std::size_t nbytes) {
    bytes.store(bytes.load(std::memory_order_relaxed) + static_cast<std::int64_t>(nbytes), std::memory_order_relaxed);
    messages.store(messages.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void reset() {
    bytes.store(0, std::memory_order_relaxed);
    messages.store(0, std::memory_order_relaxed);
  }
};

}  // namespace ringtree
