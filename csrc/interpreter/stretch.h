// Runs of a plan's bytes, wherever a call's input and output lie.
#pragma once

#include <cstdint>

#include "interpreter/prepared_program.h"

namespace ringtree {

// A run of bytes, on one axis for input and output; scratch is an axis of its own.
struct Stretch {
  bool scratch;
  std::int64_t begin, end;
  bool overlaps(const Stretch& o) const { return scratch == o.scratch && begin < o.end && o.begin < end; }
  bool operator==(const Stretch&) const = default;
};

// `aliasing`: see PreparedProgram.
inline Stretch stretch(const PreparedProgram& plan, const PreparedProgram::Operand& o, std::int64_t elements,
                       std::int64_t aliasing) {
  auto item = static_cast<std::int64_t>(plan.item);
  auto begin = plan.offsets[o.first] * item + (o.space == Space::output ? aliasing : 0);
  return {o.space == Space::scratch, begin, begin + elements * item};
}

inline bool in_memory(const PreparedProgram::Operand& o) {
  return o.space != Space::slot && o.space != Space::message;
}

// The operand whose bytes may be sent in place of a lazy slot's: a memory target beside the slot, or the source of a
// copy; nullptr if there is none.
inline const PreparedProgram::Operand* sent_in_place(const PreparedProgram& plan,
                                                     const PreparedProgram::Instruction& i) {
  const PreparedProgram::Operand* left = nullptr;
  for (int k = 0; k < i.targets; k++)
    if (in_memory(plan.operands[i.operand + k])) left = &plan.operands[i.operand + k];
  if (!left && i.kind == Kind::copy && in_memory(plan.operands[i.operand + i.targets]))
    left = &plan.operands[i.operand + i.targets];
  return left;
}

// Finds the grants that signals may carry (zero copy by the peer: see placing.cc), for an input and an output that lie
// so to each other.
void find_grants(PreparedProgram& plan, std::int64_t aliasing);

}  // namespace ringtree
