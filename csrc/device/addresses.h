// Where a block's part of an operand lies: in the rank's arrays, in slots and scratch memory, or at a peer.
#pragma once

#include "device/program.h"
#include "device/registers.h"

namespace ringtree::device {

class Addresses {
 public:
  Addresses(const Call& call, const Program& program, const Lanes& lanes, Registers& shared, int block)
      : call_(call), p_(program), l_(lanes), shared_(shared), block_(block) {}

 protected:
  static constexpr int in_arrays = -1, tiny_slot = -2, in_descriptor = 2, has_landed = -3;
  static constexpr uint64_t there = ~uint64_t{0};  // the place of a message that has landed

  // The elements of a part of `size` elements, one for each block: whole runs of 64.
  int64_t part(int64_t size) const { return ((size + call_.blocks - 1) / call_.blocks + 63) / 64 * 64; }

  // This block's part of a window of a chunk.
  void share(int64_t size, int64_t window, int64_t& begin, int64_t& end) const {
    size -= window * p_.window;
    size = size < 0 ? 0 : size < p_.window ? size : p_.window;
    int64_t each = part(size);
    begin = each * block_ < size ? each * block_ : size;
    end = size - begin < each ? size : begin + each;
  }

  // The address of this block's part, which begins at the element `begin` of the window. In slots and scratch memory
  // each block has a place of its own: blocks may be in different windows.
  uint8_t* address(const Operand& o, int piece, int64_t window, int64_t begin) const {
    int64_t item = p_.item, step = window * p_.window + begin, apart = piece * part(p_.window);
    switch (o.space) {
      case input:
        return call_.input + (p_.input_offsets[o.index + piece] + step) * item;
      case output:
        return call_.output + (p_.output_offsets[o.index + piece] + step) * item;
      case scratch:
        return call_.scratch + (block_ * call_.scratch_chunks + o.index + piece) * part(p_.window) * item;
      case slot: {
        uint64_t place = shared_.slot(o.index);
        if (shared_.held(o.index) == tiny_slot)
          return reinterpret_cast<uint8_t*>(&shared_.tiny_slot(o.index)) + before(o, piece);
        if (shared_.held(o.index) >= 0) return l_.regions[l_.rank] + place + apart * item;
        return in_place(place) + (p_.starts[o.label + piece] - p_.starts[o.label] + begin) * item;
      }
      default: {
        auto base = reinterpret_cast<uint8_t*>(shared_.message(o.index));
        if (shared_.packed(o.index) == in_descriptor)
          return reinterpret_cast<uint8_t*>(&shared_.tiny_message(o.index)) + before(o, piece);
        if (shared_.packed(o.index)) return base + apart * item;
        return base + (p_.starts[o.label + piece] - p_.starts[o.label] + begin) * item;
      }
    }
  }

  // Bytes of an operand's chunks before one.
  int64_t before(const Operand& o, int piece) const {
    return (p_.starts[o.label + piece] - p_.starts[o.label]) * p_.item;
  }

  uint8_t* in_place(uint64_t place) const {
    return l_.regions[static_cast<int64_t>(place >> region_shift) * l_.ranks + l_.rank] +
           (place & ((uint64_t{1} << region_shift) - 1));
  }

  // Whether all messages that an instruction's slot is for may land, in output that is reached from here.
  bool all_land(const Instruction& i) const {
    if (!i.lands || i.lands + i.targets + i.sources > most_operands) return false;
    for (int k = 0; k < i.lands; k++)
      if (shared_.home(static_cast<int>(p_.lands[i.land + k].peer)) == nowhere) return false;
    return true;
  }

  uint8_t* landing_at(const Land& land, const Operand& o, int piece, int64_t window, int64_t begin) const {
    auto place = static_cast<uint64_t>(shared_.home(static_cast<int>(land.peer)));
    auto base = l_.regions[static_cast<int64_t>(place >> region_shift) * l_.ranks + land.peer] +
                (place & ((uint64_t{1} << region_shift) - 1));
    return base + (land.offset + window * p_.window + begin) * p_.item + before(o, piece);
  }

  // The place of the bytes that an instruction would put into a slot, where peers reach them as they lie.
  int64_t place_of(const Instruction& i, int64_t window) const {
    int lying = i.lying[call_.same ? 1 : 0];
    if (!lying) return nowhere;
    const Operand& o = p_.operands[i.operand + lying - 1];
    int64_t base = o.space == input ? call_.input_place : call_.output_place;
    if (base == nowhere) return nowhere;
    int64_t offset = (o.space == input ? p_.input_offsets : p_.output_offsets)[o.index] + window * p_.window;
    return base + offset * p_.item;
  }

  const Call& call_;
  const Program& p_;
  const Lanes& l_;
  Registers& shared_;
  int block_;
};

}  // namespace ringtree::device
