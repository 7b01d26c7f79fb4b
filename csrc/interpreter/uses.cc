// What becomes of a plan's bytes in a call, by where its input and output lie.
#include <algorithm>
#include <iterator>
#include <map>

#include "interpreter/prepared_program.h"
#include "interpreter/stretch.h"

namespace ringtree {

namespace {

void find_overwritten(PreparedProgram& plan, std::int64_t aliasing) {
  for (std::size_t at = 0; at < plan.instructions.size(); at++) {
    auto& i = plan.instructions[at];
    if (!i.lazy || i.pieces != 1) continue;
    auto left = sent_in_place(plan, i);
    i.overwritten = false;
    if (!left) continue;
    auto mine = stretch(plan, *left, plan.sizes[i.size], aliasing);
    for (std::size_t later = at + 1; later < plan.instructions.size() && !i.overwritten; later++) {
      auto& w = plan.instructions[later];
      if (w.kind != Kind::reduce) continue;
      for (int k = 0; k < w.targets; k++) {
        auto o = plan.operands[w.operand + k];
        if (!in_memory(o)) continue;
        for (std::uint32_t piece = 0; piece < w.pieces; piece++, o.first++)
          i.overwritten |= mine.overlaps(stretch(plan, o, plan.sizes[w.size + piece], aliasing));
      }
    }
  }
}

// Bytes that a program reads.
class BytesRead {
 public:
  void add(Stretch run) {
    auto at = runs_.upper_bound(run.begin);
    if (at != runs_.begin() && std::prev(at)->second >= run.begin) --at;
    for (; at != runs_.end() && at->first <= run.end; at = runs_.erase(at)) {
      run.begin = std::min(run.begin, at->first);
      run.end = std::max(run.end, at->second);
    }
    runs_[run.begin] = run.end;
  }
  bool overlap(const Stretch& run) const {
    auto behind = runs_.lower_bound(run.end);
    return behind != runs_.begin() && std::prev(behind)->second > run.begin;
  }

 private:
  std::map<std::int64_t, std::int64_t> runs_;  // ends, by where they begin
};

// The runs of an instruction's operand, where it is input or output.
template <class Take>
void each_run(const PreparedProgram& plan, const PreparedProgram::Instruction& i, int operand, std::int64_t aliasing,
              Take take) {
  auto o = plan.operands[i.operand + operand];
  if (o.space != Space::input && o.space != Space::output) return;
  for (std::uint32_t piece = 0; piece < i.pieces; piece++, o.first++)
    take(stretch(plan, o, plan.sizes[i.size + piece], aliasing));
}

void find_unread(PreparedProgram& plan, std::int64_t aliasing) {
  BytesRead read;
  for (auto& i : plan.instructions)
    for (int k = i.targets; k < i.targets + i.sources; k++)
      each_run(plan, i, k, aliasing, [&](auto run) { read.add(run); });
  for (auto& i : plan.instructions) {
    i.unread = i.targets > 0 && !plan.finish && plan.operands[i.operand].space == Space::output;
    if (i.unread) each_run(plan, i, 0, aliasing, [&](auto run) { i.unread &= !read.overlap(run); });
  }
}

}  // namespace

void find_uses(PreparedProgram& plan, const std::byte* input, const std::byte* output) {
  bool disjoint = input + plan.input_bytes <= output || output + plan.output_bytes <= input;
  auto aliasing = disjoint ? PreparedProgram::apart : output - input;
  if (plan.aliasing == aliasing) return;
  plan.aliasing = aliasing;
  find_overwritten(plan, aliasing);
  find_unread(plan, aliasing);
  find_grants(plan, aliasing);
}

}  // namespace ringtree
