// What a thread block keeps while it runs a program.
#pragma once

#include "device/program.h"

namespace ringtree::device {

// How a message's bytes lie: its chunks a window apart, as in a slot; as they lie in the sender's array; or already
// where they belong.
enum Form : int32_t { packed, lying, landed };

// A message that has come.
struct Message {
  uint8_t* bytes;
  int32_t form, apart;
};

// The place of a slot's bytes for peers, and the slot's number, or why there is none.
struct Slot {
  uint64_t place;
  int32_t held, apart;
};

// A block's registers and addresses, in memory that its threads share.
class alignas(16) Registers {
 public:
  struct Kept {
    Message messages[most_registers];
    Slot slots[most_registers];
    int64_t homes[most_ranks];  // the places of peers' output, as far as they are known
    uint32_t bases[most_ranks];
    int32_t named_until[most_slots];
  };
  static constexpr int words = sizeof(Kept) / sizeof(int64_t);

  Message& message(int reg) { return kept_.messages[reg]; }
  Slot& slot(int reg) { return kept_.slots[reg]; }
  int64_t& home(int peer) { return kept_.homes[peer]; }
  uint32_t& base(int peer) { return kept_.bases[peer]; }
  // The instruction up to which a slot is that of who took it; -1: nobody has, in this window.
  int32_t& named_until(int slot) { return kept_.named_until[slot]; }
  // The addresses that an instruction works on, targets first.
  uint8_t*& at(int k) { return at_[k]; }
  // Of messages that are taken together: whether one has been.
  bool& taken(int k) { return taken_[k]; }
  // Whether one of them has come that is not taken so.
  volatile uint32_t& others_came() { return others_came_; }
  int64_t* all() { return reinterpret_cast<int64_t*>(&kept_); }

 private:
  Kept kept_;
  uint8_t* at_[most_operands];
  bool taken_[most_ranks];
  volatile uint32_t others_came_;
};

}  // namespace ringtree::device
