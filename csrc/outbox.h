// A rank's staging slots. A slot is taken again once no register names it and every receiver it was signalled to has
// released it. The oldest free one is taken first, so that what is being read is left alone as long as possible.
#pragma once

#include <vector>

#include "segment.h"

namespace ringtree {

class Outbox {
 public:
  Outbox(std::byte* base, int slots, std::size_t slot_bytes) : base_(base), slot_bytes_(slot_bytes), slots_(slots) {}

  // A free slot, now open; -1 if there is none.
  int take(std::vector<Sender<Sync, Notice>>& lanes) {
    for (std::size_t k = 0; k < slots_.size(); k++) {
      std::size_t slot = next_ + k < slots_.size() ? next_ + k : next_ + k - slots_.size();
      if (!free(slots_[slot], lanes)) continue;
      next_ = slot + 1 < slots_.size() ? slot + 1 : 0;
      slots_[slot].uses.clear();
      slots_[slot].open = true;
      return static_cast<int>(slot);
    }
    return -1;
  }

  // Notes that the slot went out as message `number` of the lane to `peer`.
  void signalled(int slot, int peer, std::uint64_t number) { slots_[slot].uses.push_back({peer, number}); }

  // No register names the slot any more.
  void close(int slot) { slots_[slot].open = false; }

  // The first peer that still holds a slot; -1 if registers hold all of them.
  int holder(std::vector<Sender<Sync, Notice>>& lanes) {
    for (auto& slot : slots_)
      for (auto& use : slot.uses)
        if (!lanes[use.peer].released(use.number)) return use.peer;
    return -1;
  }

  std::byte* at(int slot) const { return base_ + slot * slot_bytes_; }

 private:
  struct Use {
    int peer;
    std::uint64_t number;
  };
  struct Slot {
    bool open = false;
    std::vector<Use> uses;
  };

  static bool free(const Slot& slot, std::vector<Sender<Sync, Notice>>& lanes) {
    if (slot.open) return false;
    for (auto& use : slot.uses)
      if (!lanes[use.peer].released(use.number)) return false;
    return true;
  }

  std::byte* base_;
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

}  // namespace ringtree
