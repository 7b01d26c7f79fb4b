// What a device reads: a rank's program bound to sizes, the lanes between ranks, and one call. Plain tables, written by
// the host (ringtree.runtime.engines.device.encoding); compiled into the core, and at run time for devices.
#pragma once

#include <stdint.h>

// A function of a device that is called, not copied into each place.
#ifdef __CUDACC_RTC__
#define RINGTREE_APART __noinline__
#else
#define RINGTREE_APART
#endif

namespace ringtree::device {

enum Kind : int32_t { copy, reduce, signal, wait, release };
enum Space : int32_t { input, output, scratch, slot, message };

constexpr int most_operands = 80;  // of an instruction
constexpr int most_ranks = 256;
constexpr int most_registers = 512;  // of a program, for slots and for messages
constexpr int most_slots = 512;      // of a rank
constexpr int64_t nowhere = -1;      // the place of memory that peers do not reach
constexpr int region_shift = 48;     // a place: the region's number above, the offset in it below

// What is copied at once.
struct alignas(16) Vector {
  uint32_t words[4];
};

// Eight bytes of a flagged message, written at once with the mark of the message beside them: a reader that finds the
// mark has the bytes, and needs no other sign.
struct alignas(16) FlaggedWord {
  uint64_t bytes, mark;
};

// Messages of a lane after which numbers kept from long ago are brought up to date: they are of 32 bits, and wrap.
constexpr uint32_t renewed_after = uint32_t{1} << 30;

// The mark of a message: its number in the lane, and a digest of its sender's call above. Never 0, as a digest is not.
constexpr uint64_t mark_of(uint32_t print, uint32_t number) {
  return static_cast<uint64_t>(print) << 32 | number;
}

struct Instruction {
  int32_t kind, peer, reg, operand, targets, sources;
  int32_t run;  // of a signal, wait or release: it and those behind it, each of another peer, are done at once
  // Each where input and output are apart, and where they are the same memory.
  int32_t lying[2];    // a slot's bytes may be read where they lie: 1 + the number of the operand where they do
  int32_t settle[2];   // before it overwrites bytes that peers may still read: the first of `settles`
  int32_t settles[2];  // how many
  int32_t land,
      lands;  // the first of `lands` of the messages that its slot is for, and how many: all may land, or none
  int32_t named_until;  // the last instruction that names its slot: until then no other has the slot
  int32_t takes;        // of a wait: it, the copy of its message to the output and the release are the first of so many
                        // such three, of a peer each
};

struct Operand {
  int32_t space, index, label, count;
};

// The message to `peer` that is the program's `nth` to it, from 1, in a window.
struct Settle {
  int32_t peer, nth;
};

// The message to `peer` may be written to its output, from this element on: by then the peer is done with the place.
struct Land {
  int64_t peer, offset;
};

struct Run {
  int64_t offset, size;
};

// The numbers of an element type and an operation.
struct Arithmetic {
  int32_t dtype, op;
};

// A program's head; behind it lie its tables, each where its head says, in bytes from the head's begin.
struct alignas(16) Program {
  int64_t window, windows;  // elements of a chunk that one run of the program covers; how many runs
  int32_t instructions, operands, settles, lands;
  int32_t sizes, starts;                  // of chunks, by label: 64-bit integers; sums of the sizes before
  int32_t input_offsets, output_offsets;  // by index: 64-bit integers
  int32_t outputs;                        // what is written of the output, for the end of an average
  int32_t length, runs;                   // instructions; outputs
  int32_t item, finishes;                 // bytes of an element; whether an average or a logical value is finished
  uint32_t print;                         // a digest of the call: the same on all ranks
  Arithmetic arithmetic;
};

constexpr int messages_in_lane = 8;  // flagged, and of a call at most
constexpr int most_resolved = 384;   // operands of a flagged program

// The messages to a peer and from it in a call.
struct Numbers {
  int16_t sends, receives;
};

// An operand whose address a block finds by adding: `offset` in bytes, behind the array, or behind the lane of the
// flagged messages; of a message (to the peer: slot, from it: message) the `nth`, from 1.
struct Resolving {
  int64_t offset;
  int16_t space, peer, nth, apart;
};

// A block's part of a chunk that is copied, reduced or finished: targets, then sources, from the operand `first` on.
enum StepKind : int16_t { copying, reducing, finishing };
struct Step {
  int32_t elements, nbytes;
  int16_t kind, first, targets, sources;
};

// The head of a block's part of a program whose messages are flagged; behind it lie its tables, each in whole vectors.
struct alignas(16) FlaggedProgram {
  int32_t steps, operands;
  uint32_t print;  // as Program's
  int32_t apart;
  Arithmetic arithmetic;
  int64_t apart_too;

  const Numbers* numbers() const { return reinterpret_cast<const Numbers*>(this + 1); }
  const Step* step(int ranks) const {
    return reinterpret_cast<const Step*>(reinterpret_cast<const uint8_t*>(this + 1) + (ranks + 3) / 4 * 16);
  }
  const Resolving* operand(int ranks) const { return reinterpret_cast<const Resolving*>(step(ranks) + steps); }
};

struct alignas(32) Descriptor {
  uint64_t home;   // the place of the sender's output, where messages may land
  uint64_t place;  // of the message's bytes
  uint64_t mark;   // mark_of
};

// How many messages have come from a peer, or have been given back by it, of all blocks: what a stream waits for where
// ranks take turns on a device, and no kernel may wait for another's.
struct alignas(64) Toll {
  uint32_t arrived;
  uint32_t apart[15];
  uint32_t returned;
};

// Credits lie apart: each is written by one peer and read by one block.
struct alignas(16) Credit {
  uint32_t given;
};

// A block's counters of its lanes; in the rank's own memory.
struct alignas(32) Counters {
  uint32_t sent, taken, given;
  uint32_t pending;        // the last message to the peer that is read where it lies
  uint32_t credited;       // messages that the peer has given back, as far as it was looked at
  uint32_t renewed;        // `sent` when no word of the lane's flagged messages was older than the last `renewed`
  uint32_t slots_renewed;  // `sent` when no number of `slot_until` was older than the last `slots_renewed`
  uint32_t apart;
};

// A rank's side of a group. Blocks have lanes of their own: block b of one rank exchanges with block b of another.
struct alignas(16) Lanes {
  int32_t rank, ranks, blocks, slots;  // a lane holds as many messages as a rank has slots
  int64_t slot_bytes;                  // of all blocks
  int64_t arrivals, credits, staging;  // offsets in each rank's region 0
  int64_t tolls;                       // likewise, of [rank]; 0 where kernels wait by themselves
  int64_t flagged;                     // likewise, of [sender][block][messages_in_lane], each in twice its room:
  int64_t flagged_bytes;               // of a flagged message at most
  uint8_t* const* regions;             // [region][rank]
  Counters* counters;                  // [block][rank]
  uint32_t* slot_until;                // [block][slot][rank]: the last message that reads the slot
  int64_t* registers;                  // [block]: Registers::Kept, of a program that goes on in another launch
  int32_t* last_slot;                  // [block]
};

// Whole vectors, of 16 bytes, from one place to another.
struct Piece {
  const void* from;
  void* to;
  int nbytes;
};

enum Outcome : int32_t { fine, late, stopped, mismatch };

// What the host reads of a call that failed; the first block that fails writes it.
struct Status {
  int32_t outcome, peer, instruction, block;
  uint32_t print;  // of a mismatch: the peer's
  uint32_t ended;  // calls, as far as the host has looked at the word that they write
};

struct Call {
  const Program* program;
  const Lanes* lanes;
  Counters* counters;  // as the lanes describe them
  uint8_t *input, *output, *scratch;
  int64_t input_place, output_place;  // `nowhere` where peers do not reach them
  uint64_t limit_ns;                  // of one wait
  volatile uint32_t* stop;            // not 0: the group has failed; in the device's memory, as waits look at it
  Status* status;
  int32_t same;      // input and output are the same memory, position by position
  int32_t blocks;    // that share the work
  int32_t from, to;  // the instructions of this launch, in `first_window`; 0, length: the whole program in all windows
  int64_t first_window, last_window;
  int64_t scratch_chunks;  // of each block
  uint8_t* const* region_table;
  int32_t program_bytes;   // with its tables, which lie behind it
  int32_t regions, ranks;  // of the table of regions, as far as peers may name them
  uint32_t number;         // among this rank's calls
  int32_t flagged;         // the program is a FlaggedProgram: `program_bytes` for each block
  int32_t apart;
  uint32_t* ended;  // the number of the last call that has ended, by the first block; in the device's memory, as a
                    // kernel ends only when what it wrote to the host's has come there
};

}  // namespace ringtree::device
