// A program's tables and the lanes' description, kept beside a block's registers where they are short. An interpreter
// follows them pointer after pointer; brought at once, they take one trip to the device's memory.
#pragma once

#include "device/program.h"

namespace ringtree::device {

struct KeptTables {
  static constexpr int most_program_bytes = 12 << 10, most_regions = 256;  // of all ranks together
  alignas(16) uint8_t program[most_program_bytes];
  alignas(16) Lanes lanes;
  uint8_t* regions[most_regions];
};

// The tables that a block reads: those kept, or the device's.
template <class Platform>
class Tables {
 public:
  Tables(const Call& call, KeptTables& kept) : program_(call.program), lanes_(call.lanes) {
    bool keeps_program = call.program_bytes > 0 && call.program_bytes <= KeptTables::most_program_bytes;
    int regions = call.regions * call.ranks;
    bool keeps_lanes = regions > 0 && regions <= KeptTables::most_regions;
    if (keeps_program) bring(kept.program, call.program, call.program_bytes);
    if (keeps_lanes) {
      bring(&kept.lanes, call.lanes, sizeof(Lanes));
      bring(kept.regions, call.region_table, regions * static_cast<int>(sizeof(uint8_t*)));
    }
    Platform::barrier();
    if (Platform::thread() == 0) {
      if (keeps_program) follow(*reinterpret_cast<Program*>(kept.program), kept.program, call.program);
      if (keeps_lanes) kept.lanes.regions = kept.regions;
    }
    Platform::barrier();
    if (keeps_program) program_ = reinterpret_cast<const Program*>(kept.program);
    if (keeps_lanes) lanes_ = &kept.lanes;
  }

  const Program& program() const { return *program_; }
  const Lanes& lanes() const { return *lanes_; }

 private:
  // Whole words of 64 bits.
  static void bring(void* to, const void* from, int nbytes) {
    for (int k = Platform::thread(); k < nbytes / 8; k += Platform::threads())
      static_cast<uint64_t*>(to)[k] = static_cast<const uint64_t*>(from)[k];
  }

  // Lets the pointers of a program that was brought point to the tables that were brought with it.
  static void follow(Program& p, uint8_t* to, const Program* from) {
    auto move = [&](auto& pointer) {
      using Pointer = decltype(pointer + 0);
      auto at = reinterpret_cast<const uint8_t*>(pointer) - reinterpret_cast<const uint8_t*>(from);
      pointer = reinterpret_cast<Pointer>(to + at);
    };
    move(p.instructions);
    move(p.operands);
    move(p.settles);
    move(p.lands);
    move(p.sizes);
    move(p.starts);
    move(p.input_offsets);
    move(p.output_offsets);
    move(p.outputs);
  }

  const Program* program_;
  const Lanes* lanes_;
};

}  // namespace ringtree::device
