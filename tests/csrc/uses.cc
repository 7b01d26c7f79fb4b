// What is overwritten in a call, what nothing reads and what peers may write, by where input and output lie. The first
// decides whether bytes are sent from where they are, the second whether they are stored past the caches; neither
// changes a result. What peers may write must be touched by nothing else until they have.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "interpreter/prepared_program.h"

namespace {

using ringtree::Kind;
using ringtree::Space;

struct At {
  Space space;
  int index, label, count = 1;
};

struct Move {
  Kind kind;
  std::vector<At> targets, sources;
  int again = 0;  // how often more, before the message is given back
};

constexpr std::int64_t apart = 1000;
constexpr At slot0{Space::slot, 0, 0}, slot1{Space::slot, 0, 1};
constexpr At input0{Space::input, 0, 0}, input1{Space::input, 1, 1}, input2{Space::input, 2, 2};
constexpr At output0{Space::output, 0, 0}, output1{Space::output, 1, 1};
constexpr At scratch0{Space::scratch, 0, 0}, scratch1{Space::scratch, 0, 1}, message0{Space::message, 0, 0},
    message1{Space::message, 0, 1};
constexpr At inputs{Space::input, 0, 0, 2}, outputs{Space::output, 0, 0, 2}, messages{Space::message, 0, 0, 2};

struct Case {
  const char* what;
  std::vector<Move> moves;  // a slot is signalled at once, a message waited for before and released after
  std::int64_t output;      // elements from the input to the output
  std::string expected;     // of each move: o is overwritten, u unread
  bool average = false;
  std::vector<std::int64_t> output_offsets{0, 4};
};

struct Tables {
  std::vector<ringtree::Encoded::Instruction> instructions;
  std::vector<ringtree::Encoded::Operand> operands;

  explicit Tables(const std::vector<Move>& moves) {
    for (auto& move : moves) add(move);
  }

 private:
  void add(const Move& move) {
    bool receives = false, sends = false;
    for (auto& o : move.sources) receives |= o.space == Space::message;
    for (auto& o : move.targets) sends |= o.space == Space::slot;
    if (receives) message(Kind::wait, 0);
    for (int k = 0; k <= move.again; k++)
      instructions.push_back({static_cast<int>(move.kind), -1, -1, static_cast<int>(operands.size()),
                              static_cast<int>(move.targets.size()), static_cast<int>(move.sources.size()), 0});
    for (auto& side : {move.targets, move.sources})
      for (auto& o : side) operands.push_back({static_cast<int>(o.space), o.index, o.label, o.count});
    if (sends) message(Kind::signal, 0);
    if (receives) message(Kind::release, -1);
  }
  void message(Kind kind, int reg) { instructions.push_back({static_cast<int>(kind), 1, reg, 0, 0, 0, 0}); }
};

std::string uses(ringtree::PreparedProgram& plan, std::int64_t output) {
  static std::byte memory[16000];
  auto input = memory + 8000;
  find_uses(plan, input, input + 4 * output);
  std::string found;
  for (auto& i : plan.instructions)
    if (i.kind == Kind::copy || i.kind == Kind::reduce) found += i.overwritten ? 'o' : i.unread ? 'u' : '.';
  return found;
}

// Chunks of 4, 8 and 4 elements of 4 bytes; contiguous in the input.
ringtree::PreparedProgram bound(const std::vector<Move>& moves, const std::vector<std::int64_t>& output_offsets,
                                bool average) {
  const std::vector<std::int64_t> sizes{4, 8, 4}, input_offsets{0, 4, 12};
  Tables tables(moves);
  ringtree::Binding binding;
  binding.sizes = sizes;
  binding.input_offsets = input_offsets;
  binding.output_offsets = output_offsets;
  binding.scratch = 1;
  binding.dtype = static_cast<int>(ringtree::Dtype::float32);
  binding.op = static_cast<int>(average ? ringtree::Op::avg : ringtree::Op::sum);
  binding.collective = "all_reduce";
  return bind({tables.instructions, tables.operands}, binding, {0, 2, 1024, 1024, 64});
}

const std::vector<Move> one_shot{{Kind::copy, {slot0}, {input0}}, {Kind::reduce, {output0}, {input0, message0}}};
const std::vector<Move> forwards{{Kind::reduce, {output0, slot0}, {input0, message0}},
                                 {Kind::copy, {output0}, {message0}}};
const std::vector<Move> twice{{Kind::copy, {output0, slot0}, {input0}}, {Kind::reduce, {output0}, {input0, message0}}};
const std::vector<Move> whole0{{Kind::copy, {slot0}, {input0}}, {Kind::reduce, {outputs}, {inputs, messages}}};
const std::vector<Move> whole1{{Kind::copy, {slot1}, {input1}}, {Kind::reduce, {outputs}, {inputs, messages}}};

// What a rank of two sends to its peer and gets back.
const Move to_peer{Kind::copy, {slot1}, {input1}}, back{Kind::copy, {output1}, {message1}};
const Move sum_of_mine{Kind::reduce, {output0, slot0}, {input0, message0}};

struct Grants {
  const char* what;
  std::vector<Move> moves;
  std::int64_t output;
  std::string expected;  // of each signal: by how many messages of the peer what it grants comes later; 0: nothing
  std::vector<std::int64_t> output_offsets{0, 4};
};

const Grants grants[] = {
    {"the sum of what was sent, in place", {to_peer, sum_of_mine, back}, 0, "20"},
    {"the same, apart", {to_peer, sum_of_mine, back}, apart, "20"},
    {"the same, in part over what was sent", {to_peer, sum_of_mine, back}, 3, "00"},
    {"the same behind it", {to_peer, sum_of_mine, back}, 8, "20", {20, 4}},
    {"sent once more", {to_peer, {Kind::copy, {slot1}, {input1}}, back}, apart, "01"},
    {"sent once more, in place", {to_peer, {Kind::copy, {slot1}, {input1}}, back}, 0, "01"},
    {"sent behind another message", {{Kind::copy, {output0}, {message0}}, to_peer, back}, apart, "1"},
    {"sent back twice", {to_peer, back, {Kind::copy, {input1}, {message1}}}, apart, "1"},
    {"of another chunk", {to_peer, {Kind::copy, {output0}, {message0}}}, 0, "0"},
    {"added to, not copied", {to_peer, {Kind::reduce, {output1}, {input1, message1}}}, 0, "0"},
    {"copied into scratch", {to_peer, {Kind::copy, {scratch1}, {message1}}}, 0, "0"},
    {"sent on at once", {to_peer, {Kind::copy, {output1, slot1}, {message1}}}, 0, "10"},
    {"read before it is written", {to_peer, {Kind::copy, {scratch1}, {input1}}, back}, 0, "0"},
    {"read before it is written, apart", {to_peer, {Kind::copy, {scratch1}, {input1}}, back}, apart, "1"},
    {"written before", {to_peer, {Kind::copy, {output1}, {scratch1}}, back}, apart, "0"},
    {"written beside it", {to_peer, {Kind::copy, {output0}, {input0}}, back}, apart, "1"},
    {"written by the second run of two",
     {to_peer, {Kind::reduce, {outputs}, {inputs, inputs}}, back},
     apart,
     "0",
     {20, 4}},
    {"written twice by the copy", {to_peer, {Kind::copy, {output1, input1}, {message1}}}, 0, "0"},
    {"a message that is copied twice", {to_peer, {Kind::copy, {output1}, {message1}, 1}}, apart, "0"},
};

const Case cases[] = {
    {"sent and reduced into, apart", one_shot, apart, ".u"},
    {"the same in place", one_shot, 0, "o."},
    {"the output right behind the input", one_shot, 4, ".u"},
    {"the output right before the input", one_shot, -4, ".u"},
    {"the output an element before the input's end", one_shot, 3, "o."},
    {"the output's last element on the input's first", one_shot, -3, "o."},
    {"a sum sent on, then copied over", forwards, apart, "uu"},
    {"a copy sent on, then reduced into", twice, apart, "ou"},
    {"reduced into before it is sent",
     {{Kind::reduce, {output0}, {input0, message0}}, {Kind::copy, {slot0}, {output0}}},
     apart,
     ".."},
    {"reduced into beside it",
     {{Kind::copy, {slot0}, {input0}}, {Kind::reduce, {output1}, {input1, message1}}},
     0,
     ".."},
    {"scratch where the output would be",
     {{Kind::copy, {scratch0}, {input0}},
      {Kind::copy, {slot0}, {scratch0}},
      {Kind::reduce, {output0}, {input0, message0}}},
     0,
     "..."},
    {"scratch that is reduced into",
     {{Kind::copy, {scratch0}, {input0}},
      {Kind::copy, {slot0}, {scratch0}},
      {Kind::reduce, {scratch0}, {input0, message0}}},
     0,
     ".o."},
    {"a message sent on", {{Kind::copy, {slot0}, {message0}}, {Kind::reduce, {output0}, {input0, message0}}}, 0, ".."},
    {"a sum that goes into a slot",
     {{Kind::copy, {slot0}, {input0}}, {Kind::reduce, {slot0}, {input0, message0}}},
     0,
     ".."},
    {"runs, of which the first overlaps", whole0, 0, "o.", false, {0, 8}},
    {"runs, of which the last overlaps", whole1, 0, "o.", false, {20, 4}},
    {"runs, of which none overlaps", whole1, 0, "..", false, {0, 12}},
    {"runs, of which the last, longer one overlaps",
     {{Kind::copy, {slot1}, {input1}}, {Kind::copy, {slot0}, {input0}}, {Kind::reduce, {outputs}, {inputs, messages}}},
     0,
     "oo.",
     false,
     {20, 0}},
    {"an average, which is divided at the end", one_shot, apart, "..", true},
    {"unread between two runs that are read",
     {{Kind::copy, {slot0}, {input0}}, {Kind::copy, {slot0}, {input2}}, {Kind::copy, {output1}, {message1}}},
     0,
     "..u"},
    {"read by one of two runs that touch",
     {{Kind::copy, {slot1}, {input1}}, {Kind::copy, {slot0}, {input0}}, {Kind::copy, {output1}, {message1}}},
     0,
     "..."},
    {"read in part by a run that begins before",
     {{Kind::copy, {slot0}, {input0}}, {Kind::copy, {output0}, {message0}}},
     3,
     ".."},
};

}  // namespace

int main() {
  bool right = true;
  for (auto& c : cases) {
    auto plan = bound(c.moves, c.output_offsets, c.average);
    auto found = uses(plan, c.output);
    if (found != c.expected) std::fprintf(stderr, "%s: %s, expected %s\n", c.what, found.c_str(), c.expected.c_str());
    right &= found == c.expected;
  }
  for (auto& g : grants) {
    auto plan = bound(g.moves, g.output_offsets, false);
    uses(plan, g.output);
    std::string found;
    for (auto& i : plan.instructions)
      if (i.kind == Kind::signal) found += static_cast<char>('0' + (i.grant < 0 ? 0 : i.ahead));
    if (found != g.expected) std::fprintf(stderr, "%s: %s, expected %s\n", g.what, found.c_str(), g.expected.c_str());
    right &= found == g.expected;
  }
  auto plan = bound(one_shot, {0, 4}, false);
  for (std::int64_t output : {apart, std::int64_t{0}, apart}) {
    auto expected = output ? ".u" : "o.";
    if (uses(plan, output) == expected) continue;
    std::fprintf(stderr, "a plan that ran with arrays elsewhere: not %s\n", expected);
    right = false;
  }
  if (!right) return EXIT_FAILURE;
  std::printf("what is overwritten, what is unread and what is granted: right in %zu programs\n",
              std::size(cases) + std::size(grants));
}
