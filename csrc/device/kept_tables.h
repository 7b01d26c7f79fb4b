// What a block reads at the begin of a call: a program's tables, the lanes' description and its counters, kept beside
// its registers where they are short. They are brought together, in one trip to the device's memory, as an interpreter
// follows them pointer after pointer.
#pragma once

#include "device/program.h"

namespace ringtree::device {

struct KeptTables {
  static constexpr int most_program_bytes = 12 << 10, most_regions = 256;  // of all ranks together
  static constexpr int most_ranks_counted = 64;
  alignas(16) uint8_t program[most_program_bytes];
  alignas(16) Lanes lanes;
  alignas(16) uint8_t* regions[most_regions];
  Counters counters[most_ranks_counted];
};

// The tables that a block reads: those kept, or the device's. `stopped`: whether the group has failed.
template <class Platform>
class Tables {
 public:
  Tables(const Call& call, KeptTables& kept, int block) : call_(call), kept_(kept), block_(block) {
    bool stop = Platform::thread() == 0 && Platform::stop(call.stop);
    keeps_program_ = call.program_bytes > 0 && call.program_bytes <= KeptTables::most_program_bytes;
    int regions = call.regions * call.ranks;
    keeps_regions_ = regions > 0 && regions <= KeptTables::most_regions;
    const Piece pieces[] = {
        {call.lanes, &kept.lanes, sizeof(Lanes)},
        {reinterpret_cast<const uint8_t*>(call.program) + (call.flagged ? block * call.program_bytes : 0), kept.program,
         keeps_program_ ? call.program_bytes : 0},
        {call.region_table, kept.regions, keeps_regions_ ? (regions + 1) / 2 * 16 : 0},
        {call.counters + static_cast<int64_t>(block) * call.ranks, kept.counters,
         keeps_counters() ? call.ranks * static_cast<int>(sizeof(Counters)) : 0}};
    Platform::bring(pieces);
    stopped_ = Platform::any(stop);
  }

  bool stopped() const { return stopped_; }
  const Program& program() const {
    return keeps_program_ ? *reinterpret_cast<const Program*>(kept_.program) : *call_.program;
  }
  // A flagged program is always kept.
  const FlaggedProgram& flagged_program() const { return *reinterpret_cast<const FlaggedProgram*>(kept_.program); }
  const Lanes& lanes() const { return kept_.lanes; }
  uint8_t* const* regions() const { return keeps_regions_ ? kept_.regions : call_.region_table; }
  Counters* counters() const { return keeps_counters() ? kept_.counters : in_memory(); }

  int block() const { return block_; }

  // Writes counters back, for the next launch.
  void keep_counters() const {
    for (int peer = Platform::thread(); peer < call_.ranks; peer += Platform::threads()) keep_counter(peer);
  }
  void keep_counter(int peer) const {
    if (keeps_counters()) in_memory()[peer] = kept_.counters[peer];
  }

 private:
  bool keeps_counters() const { return call_.ranks <= KeptTables::most_ranks_counted; }
  Counters* in_memory() const { return call_.counters + static_cast<int64_t>(block_) * call_.ranks; }

  const Call& call_;
  KeptTables& kept_;
  int block_;
  bool keeps_program_, keeps_regions_, stopped_;
};

}  // namespace ringtree::device
