// A rank's staging slots. A slot is taken again once no register names it and every receiver it was signalled to has
// released it. The oldest free one is taken first, so that what is being read is left alone as long as possible; of
// ranks that share a core the first, so that few lines of its cache are in use.
//
// A core reads what another wrote a moment ago out of the other's own cache, at a quarter of the last cache's rate. So
// short messages are spread: each lies in its slot's room behind the one before it, and what is written next, to lines
// last used long ago, displaces it to the last cache. Long ones do so by themselves, and lie at the room's beginning;
// so do those of ranks that share a core, which find them in its own cache.
//
// Messages of a call that fit one slot share it, as those of a scatter: it is free when all of them are released. Busy
// slots are never more than messages under way, so a call needs no more of them than if each had its own.
#pragma once

#include <atomic>
#include <cassert>
#include <vector>

#include "memory/segment.h"

namespace ringtree {

// The sender's ends of a rank's lanes: one to each peer, and one to all of them.
struct OutgoingLanes {
  static constexpr int all = -1;  // in a peer's place

  std::vector<Outgoing<Descriptor>> to;
  OutgoingToAll to_all;

  Outgoing<Descriptor>& operator[](int peer) { return to[peer]; }
  const Outgoing<Descriptor>& operator[](int peer) const { return to[peer]; }
  bool released(int peer, std::uint64_t number) const {
    return peer == all ? to_all.released(number) : to[peer].released(number);
  }
  // A peer that has not released it.
  int holder(int peer, std::uint64_t number) const { return peer == all ? to_all.holder(number) : peer; }
};

class Outbox {
 public:
  // `room`: bytes of a slot; `slot_bytes`: those of its messages at most; `oldest`: whether it is taken first.
  Outbox(std::byte* base, int slots, std::size_t room, std::size_t slot_bytes, bool oldest)
      : base_(base), room_(room), slot_bytes_(slot_bytes), oldest_(oldest), slots_(slots) {}

  bool has_free(const OutgoingLanes& lanes) const { return first_free(lanes) >= 0; }

  // A call begins, whose messages share no slot with those before it.
  void begin() { last_ = -1; }

  // Opens a free slot for so many bytes, or again the one taken last, behind what it holds; -1 if there is neither.
  int take(const OutgoingLanes& lanes, std::size_t nbytes) {
    int slot = last_;
    if (slot < 0 || slots_[slot].open || slots_[slot].nbytes + nbytes > slot_bytes_ ||
        slots_[slot].next + nbytes > room_) {
      if ((slot = first_free(lanes)) < 0) return -1;
      next_ = oldest_ && slot + 1 < static_cast<int>(slots_.size()) ? slot + 1 : 0;
      slots_[slot].uses.clear();
      slots_[slot].nbytes = 0;
      last_ = slot;
    }
    slots_[slot].open = true;
    count_open(1);
    return slot;
  }

  // Notes that the slot went out as message `number` of the lane to `peer`, or to all.
  void signalled(int slot, int peer, std::uint64_t number) { slots_[slot].uses.push_back({peer, number}); }

  // No register names the slot any more.
  void close(int slot) {
    assert(slots_[slot].open);
    slots_[slot].open = false;
    count_open(-1);
  }

  int slots() const { return static_cast<int>(slots_.size()); }
  // The number of slots that registers name: none between calls. Any thread may ask.
  int open() const { return open_.load(std::memory_order_relaxed); }

  // The first peer that still holds a slot; -1 if registers hold all of them.
  int holder(const OutgoingLanes& lanes) const {
    for (auto& slot : slots_)
      for (auto& use : slot.uses)
        if (!lanes.released(use.peer, use.number)) return lanes.holder(use.peer, use.number);
    return -1;
  }

  // Where the message goes that the slot was taken for; `spread`: behind the one before it also if that is released.
  std::byte* place(int slot, std::size_t nbytes, bool spread) {
    auto& [open, next, held, uses] = slots_[slot];
    if (!held && (!spread || next + nbytes > room_)) next = 0;
    auto at = base_ + slot * room_ + next;
    auto lines = (nbytes + cache_line - 1) / cache_line * cache_line;
    next += lines;
    held += lines;
    return at;
  }
  std::size_t room() const { return room_; }
  // A place as peers know it.
  std::uint64_t offset(const std::byte* at) const { return static_cast<std::uint64_t>(at - base_); }

 private:
  struct Use {
    int peer;
    std::uint64_t number;
  };
  struct Slot {
    bool open = false;
    std::size_t next = 0;    // place in its room
    std::size_t nbytes = 0;  // of its messages
    std::vector<Use> uses;
  };

  static bool free(const Slot& slot, const OutgoingLanes& lanes) {
    if (slot.open) return false;
    for (auto& use : slot.uses)
      if (!lanes.released(use.peer, use.number)) return false;
    return true;
  }

  int first_free(const OutgoingLanes& lanes) const {
    for (int k = next_; k < static_cast<int>(slots_.size()); k++)
      if (free(slots_[k], lanes)) return k;
    for (int k = 0; k < next_; k++)
      if (free(slots_[k], lanes)) return k;
    return -1;
  }

  // One thread at a time writes.
  void count_open(int change) {
    open_.store(open_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }

  std::byte* base_;
  std::size_t room_, slot_bytes_;
  bool oldest_;
  std::vector<Slot> slots_;
  int next_ = 0;
  int last_ = -1;  // taken in this call
  std::atomic<int> open_ = 0;
};

}  // namespace ringtree
