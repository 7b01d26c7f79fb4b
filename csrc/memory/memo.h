// Values that the ranks of a host compute alike, computed once: a rank claims a key, computes, and publishes; the
// others read. A hint only: a rank that finds no room, or waits in vain for a rank that claimed, computes the value
// itself. Such a rank may publish an empty value first, so that all ranks compute it, the late one included.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "machine.h"

namespace ringtree {

class Memo {
 public:
  struct alignas(cache_line) Entry {
    std::atomic<std::uint64_t> key;             // 0: free. A digest of the question
    std::atomic<std::uint32_t> nbytes_and_one;  // 0: not published
    std::atomic<std::uint32_t> rank_and_one;    // of the one that claimed it; 0: not written yet
    std::array<std::byte, 496> value;
  };
  static_assert(sizeof(Entry) == 512);
  static constexpr std::size_t entries = 128, nbytes = entries * sizeof(Entry), most_nbytes = sizeof(Entry::value);
  static constexpr int tries = 8;

  enum class State { published, claimed_here, claimed_elsewhere, full };
  struct Found {
    State state;
    std::span<const std::byte> value;
  };

  explicit Memo(Entry* table) : table_(table) {}

  // The value known of a key, which is not 0; where there is none, `rank` claims it. `prefault` makes an entry's memory
  // exist before the first write.
  template <class Prefault>
  Found find(std::uint64_t key, int rank, Prefault prefault) {
    for (int i = 0; i < tries; i++) {
      Entry& entry = table_[(key + i) % entries];
      auto there = entry.key.load(std::memory_order_relaxed);
      if (there == 0) {
        prefault(entry);
        if (entry.key.compare_exchange_strong(there, key, std::memory_order_relaxed)) {
          entry.rank_and_one.store(static_cast<std::uint32_t>(rank + 1), std::memory_order_relaxed);
          return {State::claimed_here, {}};
        }
      }
      if (there != key) continue;
      auto size = entry.nbytes_and_one.load(std::memory_order_acquire);  // pairs with publish()
      if (size == 0) return {State::claimed_elsewhere, {}};
      return {State::published, {entry.value.data(), size - 1}};
    }
    return {State::full, {}};
  }

  // The rank that has claimed a key and not published its value yet; -1: none that is known.
  int claimant(std::uint64_t key) const {
    for (int i = 0; i < tries; i++) {
      const Entry& entry = table_[(key + i) % entries];
      if (entry.key.load(std::memory_order_relaxed) != key) continue;
      if (entry.nbytes_and_one.load(std::memory_order_relaxed) != 0) return -1;
      return static_cast<int>(entry.rank_and_one.load(std::memory_order_relaxed)) - 1;
    }
    return -1;
  }

  // By the rank that claimed the key; an empty value also by others. Whether all ranks read `value`: the first that is
  // published stays, and one that is too long is published as an empty one.
  bool publish(std::uint64_t key, std::span<const std::byte> value) {
    for (int i = 0; i < tries; i++) {
      Entry& entry = table_[(key + i) % entries];
      if (entry.key.load(std::memory_order_relaxed) != key) continue;
      auto there = entry.nbytes_and_one.load(std::memory_order_relaxed);
      if (there == 0) {
        auto size = value.size() <= most_nbytes ? value.size() : 0;
        if (size) std::memcpy(entry.value.data(), value.data(), size);
        if (entry.nbytes_and_one.compare_exchange_strong(there, static_cast<std::uint32_t>(size + 1),
                                                         std::memory_order_release, std::memory_order_relaxed))
          return size == value.size();
      }
      return value.empty() && there == 1;
    }
    return false;
  }

 private:
  Entry* table_;
};

}  // namespace ringtree
