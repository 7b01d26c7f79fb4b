// Where a block's part of an operand lies: in the rank's arrays, in slots and scratch memory, or at a peer.
#pragma once

#include "device/program.h"
#include "device/registers.h"

namespace ringtree::device {

class Addresses {
 public:
  Addresses(const Call& call, const Program& program, const Lanes& lanes, uint8_t* const* regions, Registers& shared,
            int block)
      : call_(call), p_(program), l_(lanes), regions_(regions), shared_(shared), block_(block) {}

 protected:
  static constexpr int in_arrays = -1, has_landed = -3;
  static constexpr uint64_t there = ~uint64_t{0};  // the place of a message that has landed

  // ---- the program's tables

  const Instruction& instruction(int number) const { return table<Instruction>(p_.instructions)[number]; }
  const Operand* operands(const Instruction& i) const { return table<Operand>(p_.operands) + i.operand; }
  const Settle* settles(int first) const { return table<Settle>(p_.settles) + first; }
  const Land* lands(const Instruction& i) const { return table<Land>(p_.lands) + i.land; }
  const Run& written(int number) const { return table<Run>(p_.outputs)[number]; }
  int64_t size(int label) const { return table<int64_t>(p_.sizes)[label]; }

  // Elements of an operand's chunks before one.
  int64_t before(const Operand& o, int piece) const {
    auto starts = table<int64_t>(p_.starts) + o.label;
    return starts[piece] - starts[0];
  }

  // ---- a block's part

  // The elements of a part of `size` elements, one for each block: whole runs of 64.
  int64_t part(int64_t size) const {
    auto runs = static_cast<uint32_t>((size + 63) / 64), blocks = static_cast<uint32_t>(call_.blocks);
    return int64_t{blocks == 1 ? runs : (runs + blocks - 1) / blocks} * 64;
  }

  // This block's part of a window of a chunk.
  void share(int64_t size, int64_t window, int64_t& begin, int64_t& end) const {
    size -= window * p_.window;
    size = size < 0 ? 0 : size < p_.window ? size : p_.window;
    int64_t each = part(size);
    begin = each * block_ < size ? each * block_ : size;
    end = size - begin < each ? size : begin + each;
  }

  // ---- addresses

  // The address of this block's part, which begins at the element `begin` of the window. In slots and scratch memory
  // each block has a place of its own: blocks may be in different windows.
  uint8_t* address(const Operand& o, int piece, int64_t window, int64_t begin) const {
    int64_t item = p_.item, step = window * p_.window + begin;
    switch (o.space) {
      case input:
        return call_.input + (table<int64_t>(p_.input_offsets)[o.index + piece] + step) * item;
      case output:
        return call_.output + (table<int64_t>(p_.output_offsets)[o.index + piece] + step) * item;
      case scratch:
        return call_.scratch + (block_ * call_.scratch_chunks + o.index + piece) * part(p_.window) * item;
      case slot: {
        const Slot& s = shared_.slot(o.index);
        if (s.held >= 0) return regions_[l_.rank] + s.place + piece * part(p_.window) * item;
        return in_place(s.place) + (before(o, piece) + begin) * item;
      }
      default: {
        const Message& m = shared_.message(o.index);
        if (m.form == lying) return m.bytes + (before(o, piece) + begin) * item;
        return m.bytes + piece * part(p_.window) * item;
      }
    }
  }

  uint8_t* region(uint64_t place, int rank) const {
    return regions_[static_cast<int64_t>(place >> region_shift) * l_.ranks + rank] +
           (place & ((uint64_t{1} << region_shift) - 1));
  }
  uint8_t* in_place(uint64_t place) const { return region(place, l_.rank); }

  // Whether all messages that an instruction's slot is for may land, in output that is reached from here.
  bool all_land(const Instruction& i) const {
    if (!i.lands || i.lands + i.targets + i.sources > most_operands) return false;
    for (int k = 0; k < i.lands; k++)
      if (shared_.home(static_cast<int>(lands(i)[k].peer)) == nowhere) return false;
    return true;
  }

  uint8_t* landing_at(const Land& land, const Operand& o, int piece, int64_t window, int64_t begin) const {
    int peer = static_cast<int>(land.peer);
    return region(static_cast<uint64_t>(shared_.home(peer)), peer) +
           (land.offset + window * p_.window + begin + before(o, piece)) * p_.item;
  }

  // The place of the bytes that an instruction would put into a slot, where peers reach them as they lie.
  int64_t place_of(const Instruction& i, int64_t window) const {
    int lying = i.lying[call_.same ? 1 : 0];
    if (!lying) return nowhere;
    const Operand& o = operands(i)[lying - 1];
    int64_t base = o.space == input ? call_.input_place : call_.output_place;
    if (base == nowhere) return nowhere;
    auto offsets = table<int64_t>(o.space == input ? p_.input_offsets : p_.output_offsets);
    return base + (offsets[o.index] + window * p_.window) * p_.item;
  }

  const Call& call_;
  const Program& p_;
  const Lanes& l_;
  uint8_t* const* regions_;
  Registers& shared_;
  int block_;

 private:
  template <class Row>
  const Row* table(int32_t offset) const {
    return reinterpret_cast<const Row*>(reinterpret_cast<const uint8_t*>(&p_) + offset);
  }
};

}  // namespace ringtree::device
