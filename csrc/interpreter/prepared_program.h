// A program bound to sizes: what the interpreter runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interpreter/call.h"
#include "kernels/kernels.h"

namespace ringtree {

enum class Kind : std::int32_t { copy, reduce, signal, wait, release };
enum class Space : std::int32_t { input, output, scratch, slot, message };

// The program as Python encodes it (ringtree.ir.program.Program.encode): plain tables.
struct Encoded {
  struct Instruction {
    std::int32_t kind, peer, reg, first, targets, sources, multicast;
  };
  struct Operand {
    std::int32_t space, index, label, count;
  };
  std::span<const Instruction> instructions;
  std::span<const Operand> operands;
};

// Sizes in elements, see Group.prepare in _native.pyi.
struct Binding {
  std::span<const std::int64_t> sizes, input_offsets, output_offsets;
  std::int64_t scratch = 0;  // chunks
  std::int64_t window = 0;
  int dtype = 0;
  int op = -1;
  int root = -1;
  std::int64_t count = 0;
  std::uint32_t digest = 0;
  std::string collective;
  bool single_copy = false;
};

struct Limits {
  int rank, ranks;
  std::size_t slot_bytes, overflow_bytes;
  std::uint64_t depth;
  bool multicast = false;  // whether the ranks have multicasts: those of a group of one host
};

struct PreparedProgram {
  static constexpr int most_targets = 2;
  static constexpr std::int64_t never = INT64_MIN, apart = INT64_MIN / 2;

  struct Operand {
    Space space;
    std::int32_t reg;     // for slots and messages
    std::uint32_t first;  // else the first of the instruction's `pieces` offsets
    bool last = false;    // a slot that nothing names afterwards
  };
  // Works on `pieces` runs of elements, which are contiguous in each operand.
  struct Instruction {
    Kind kind;
    std::uint8_t targets = 0;
    std::uint8_t slots = 0;    // targets that are slots: 0 or 1
    bool lazy = false;         // signals of that slot follow at once, and there are no others: need not be staged
    bool last = false;         // nothing names the slot after this
    bool overwritten = false;  // what it leaves in place is reduced into later, for `aliasing`
    bool multicast = false;    // of a message: goes to all, in the sender's multicast; a signal has no `peer` then
    bool unread = false;       // its first target is output that nothing reads in this call, for `aliasing`
    bool placeable = false;    // of a lazy slot: a sum of one piece that goes to each of its peers once
    std::int32_t sources = 0;
    std::int32_t peer = -1;  // of a copy or a reduction: whose message it reads
    std::int32_t reg = -1;
    std::int32_t chunk = -1;    // what it is about, by its position on the whole vector; -1 for several
    std::uint32_t operand = 0;  // targets, then sources
    std::uint32_t pieces = 0;
    std::uint32_t size = 0;  // the first of `pieces` sizes
    // Of a signal, for `aliasing`: the operand that it grants to its peer (-1: none), to which a message of that peer
    // is copied; and how many of the peer's messages are waited for from here on up to that one.
    std::int32_t grant = -1, ahead = 0;
  };
  struct Run {
    std::int64_t offset, size;
  };

  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::vector<std::int64_t> offsets;  // elements from the start of the space
  std::vector<std::int64_t> sizes;    // elements
  std::vector<Run> outputs;           // what is written of the output, for the division of an average
  std::int64_t aliasing = never;      // bytes from input to output that the two hold for; `apart` if they are disjoint
  std::int64_t input_bytes = 0, output_bytes = 0;  // what is touched of them
  std::vector<int> silent_peers;                   // peers that receive from this rank and send it nothing
  int slot_registers = 0, message_registers = 0;
  int most_sources = 0;
  std::int64_t windows = 1, window = 0;  // elements of a chunk that one run of the program covers
  std::size_t item = 0;                  // bytes of an element
  std::size_t scratch_bytes = 0;
  bool single_copy = false;     // whether peers read messages in this process's memory, where they can
  std::size_t moved_bytes = 0;  // of all copies and reductions: small plans are not worth letting go of the host
  bool short_exchange = false;  // whether the rank sends and receives, and moves little
  Reduce reduce = nullptr;
  Finish finish = nullptr;
  Fingerprint print;
};

// Sets `overwritten`, `unread` and `grant` for an input and an output that begin there. Bytes that are overwritten are
// not sent without a copy: the ranks of a one-shot or recursive-doubling program would all wait for each other. (Bytes
// that a later copy overwrites were, in all programs known, given back by then.) Bytes that are unread need no place in
// a cache. Bytes that are granted are not touched until the message comes that is copied to them.
void find_uses(PreparedProgram& plan, const std::byte* input, const std::byte* output);

// Throws std::invalid_argument, naming the instruction, for a program that would step outside its memory.
PreparedProgram bind(const Encoded& program, const Binding& binding, const Limits& limits);

}  // namespace ringtree
