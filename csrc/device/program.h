// What a device reads: a rank's program bound to sizes, the lanes between ranks, and one call. Plain tables, written by
// the host (ringtree.runtime.engines.device.encoding); compiled into the core, and at run time for devices.
#pragma once

#include <stdint.h>

namespace ringtree::device {

enum Kind : int32_t { copy, reduce, signal, wait, release };
enum Space : int32_t { input, output, scratch, slot, message };

constexpr int most_operands = 80;  // of an instruction
constexpr int most_ranks = 256;
constexpr int most_registers = 512;  // of a program, for slots and for messages
constexpr int64_t nowhere = -1;      // the place of memory that peers do not reach
constexpr int region_shift = 48;     // a place: the region's number above, the offset in it below

struct Instruction {
  int32_t kind, peer, reg, operand, targets, sources;
  int32_t run;  // of a signal, wait or release: it and those behind it, each of another peer, are done at once
  // Each where input and output are apart, and where they are the same memory.
  int32_t lying[2];    // a slot's bytes may be read where they lie: 1 + the number of the operand where they do
  int32_t settle[2];   // before it overwrites bytes that peers may still read: the first of `settles`
  int32_t settles[2];  // how many
  int32_t tiny;        // of what concerns a message of at most 8 bytes: it travels in the descriptor
  int32_t land,
      lands;  // the first of `lands` of the messages that its slot is for, and how many: all may land, or none
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

struct Program {
  const Instruction* instructions;
  const Operand* operands;
  const Settle* settles;
  const Land* lands;
  const int64_t* sizes;          // of chunks, by label
  const int64_t* starts;         // sums of the sizes before
  const int64_t* input_offsets;  // by index
  const int64_t* output_offsets;
  const Run* outputs;       // what is written of the output, for the end of an average
  int64_t window, windows;  // elements of a chunk that one run of the program covers; how many runs
  int32_t length, runs;     // instructions; outputs
  int32_t item, finishes;   // bytes of an element; whether an average or a logical value is finished
  uint32_t print;           // a digest of the call: the same on all ranks
  int32_t dtype, op;
};

struct alignas(32) Descriptor {
  uint64_t home;   // the place of the sender's output, where messages may land
  uint64_t place;  // of the message's bytes; of a tiny message the bytes themselves
  uint64_t mark;   // the message's number in the lane, and the sender's digest of the call above
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
  uint32_t pending;   // the last message to the peer that is read where it lies
  uint32_t credited;  // messages that the peer has given back, as far as it was looked at
};

// A rank's side of a group. Blocks have lanes of their own: block b of one rank exchanges with block b of another.
struct Lanes {
  int32_t rank, ranks, blocks, slots;  // a lane holds as many messages as a rank has slots
  int64_t slot_bytes;                  // of all blocks
  int64_t arrivals, credits, staging;  // offsets in each rank's region 0
  int64_t tolls;                       // likewise, of [rank]; 0 where kernels wait by themselves
  uint8_t* const* regions;             // [region][rank]
  Counters* counters;                  // [block][rank]
  uint32_t* slot_until;                // [block][slot][rank]: the last message that reads the slot
  uint32_t* ended;                     // calls, by the first block
  int64_t* registers;                  // [block][2 * most_registers]: of a program that goes on in another launch
  int32_t* last_slot;                  // [block]
};

enum Outcome : int32_t { fine, late, stopped, mismatch };

// What the host reads of a call that failed; the first block that fails writes it.
struct Status {
  int32_t outcome, peer, instruction, block;
  uint32_t print;  // of a mismatch: the peer's
  uint32_t ended;  // calls, by the first block
};

struct Call {
  const Program* program;
  const Lanes* lanes;
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
  int32_t apart;
};

}  // namespace ringtree::device
