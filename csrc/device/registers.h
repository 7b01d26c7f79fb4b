// What a thread block keeps while it runs a program.
#pragma once

#include "device/program.h"

namespace ringtree::device {

// A block's registers and addresses, in memory that its threads share. A slot's place, with the number of the slot or
// -1 where the bytes are read where they lie, -2 where they travel in the descriptor; a message's address, and whether
// its chunks are a window apart, or it came in its descriptor.
struct Registers {
  static constexpr int words = 6 * most_registers + 2 * most_ranks;
  int64_t wide[2 * most_registers];
  uint64_t tiny[2 * most_registers];  // messages that travel in descriptors: those sent, those received
  int16_t narrow[2 * most_registers];
  uint32_t base_[most_ranks];
  int64_t home_[most_ranks];  // the places of peers' output, as far as they are known
  uint8_t* at_[most_operands];

  int64_t& slot(int reg) { return wide[reg]; }
  int64_t& message(int reg) { return wide[most_registers + reg]; }
  int16_t& held(int reg) { return narrow[reg]; }
  int16_t& packed(int reg) { return narrow[most_registers + reg]; }
  int64_t& home(int peer) { return home_[peer]; }
  uint32_t& base(int peer) { return base_[peer]; }
  uint8_t*& at(int k) { return at_[k]; }
  uint64_t& tiny_slot(int reg) { return tiny[reg]; }
  uint64_t& tiny_message(int reg) { return tiny[most_registers + reg]; }
  int64_t get(int k) const {
    constexpr int each = 2 * most_registers;
    if (k < each) return wide[k];
    if (k < 2 * each) return static_cast<int64_t>(tiny[k - each]);
    if (k < 3 * each) return narrow[k - 2 * each];
    return k < 3 * each + most_ranks ? base_[k - 3 * each] : home_[k - 3 * each - most_ranks];
  }
  void set(int k, int64_t value) {
    constexpr int each = 2 * most_registers;
    if (k < each)
      wide[k] = value;
    else if (k < 2 * each)
      tiny[k - each] = static_cast<uint64_t>(value);
    else if (k < 3 * each)
      narrow[k - 2 * each] = static_cast<int16_t>(value);
    else if (k < 3 * each + most_ranks)
      base_[k - 3 * each] = static_cast<uint32_t>(value);
    else
      home_[k - 3 * each - most_ranks] = value;
  }
};

}  // namespace ringtree::device
