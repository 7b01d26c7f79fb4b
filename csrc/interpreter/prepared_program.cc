#include "interpreter/prepared_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "interpreter/stretch.h"

namespace ringtree {

namespace {

constexpr std::size_t longest_multicast = 4096;  // bytes of a chunk; what is longer may be read where it lies
constexpr std::size_t short_bytes = 16384;       // of a call in which a waiting rank may keep its core
constexpr std::int64_t most_bytes = std::int64_t{1} << 48;  // of an array: no process has more, and sums stay in range

class Binder {
 public:
  Binder(const Encoded& program, const Binding& binding, const Limits& limits)
      : program_(program), b_(binding), limits_(limits), taken_(limits.ranks) {}

  PreparedProgram bind() {
    plan_.item = dtype_bytes(b_.dtype);
    plan_.single_copy = b_.single_copy;
    slot_bytes_ = b_.single_copy ? std::max(limits_.slot_bytes, limits_.overflow_bytes) : limits_.slot_bytes;
    if (plan_.item == 0) throw std::invalid_argument("no such type code: " + std::to_string(b_.dtype));
    bind_sizes();
    for (at_ = 0; at_ < program_.instructions.size(); at_++) add(program_.instructions[at_]);
    if (!multicast_to_.empty()) wrong("ends a multicast that has not gone to all");
    for (int peer = 0; peer < limits_.ranks; peer++)
      if (held(peer) != 0) wrong("leaves a message of peer " + std::to_string(peer) + " unreleased");
    find_last_uses();
    find_lazy();
    find_subjects();
    for (int peer = 0; peer < limits_.ranks; peer++)
      if (sent_.contains(peer) && !sources_.contains(peer)) plan_.silent_peers.push_back(peer);
    plan_.short_exchange = plan_.moved_bytes <= short_bytes && !sent_.empty() && !sources_.empty();
    for (auto& run : outputs_) plan_.outputs.push_back({run.first, run.second});
    bind_kernels();
    plan_.print = {static_cast<std::uint64_t>(b_.count), pack(b_.collective, b_.dtype, b_.op, b_.root), b_.digest};
    return std::move(plan_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    throw std::invalid_argument("program of " + b_.collective + ", rank " + std::to_string(limits_.rank) +
                                ", instruction " + std::to_string(at_) + " " + what);
  }

  void bind_sizes() {
    auto most = most_bytes / static_cast<std::int64_t>(plan_.item);
    std::int64_t sum = 0;
    for (auto size : b_.sizes) {
      if (size < 0) throw std::invalid_argument("a chunk has a negative size");
      if (size > most - sum) throw std::invalid_argument("the chunks are longer than memory can be");
      sum += size;
      largest_ = std::max(largest_, size);
    }
    for (auto offsets : {b_.input_offsets, b_.output_offsets})
      for (auto offset : offsets)
        if (offset < 0 || offset > most)
          throw std::invalid_argument("a chunk begins at " + std::to_string(offset) + ", outside of its array");
    if (b_.scratch < 0 || b_.scratch > most / std::max<std::int64_t>(largest_, 1))
      throw std::invalid_argument("no memory holds " + std::to_string(b_.scratch) + " chunks of scratch");
    auto whole = std::max<std::int64_t>(largest_, 1);
    plan_.window = b_.window > 0 ? std::min(b_.window, whole) : whole;
    plan_.windows = (whole + plan_.window - 1) / plan_.window;
    multicasts_ =
        limits_.multicast && plan_.windows == 1 && static_cast<std::size_t>(largest_) * plan_.item <= longest_multicast;
    plan_.scratch_bytes = static_cast<std::size_t>(b_.scratch * largest_) * plan_.item;
  }

  void bind_kernels() {
    if (!reduces_ && b_.op < 0) return;
    if (b_.op < 0 || b_.op >= ops) throw std::invalid_argument("no such operation: " + std::to_string(b_.op));
    plan_.reduce = kernels().reduce[b_.dtype][b_.op];
    plan_.finish = kernels().finish[b_.dtype][b_.op];
    if (!plan_.reduce)
      throw std::invalid_argument(std::string(op_name(b_.op)) + " of " + std::string(dtype_name(b_.dtype)) +
                                  " is not supported");
  }

  void add(const Encoded::Instruction& from) {
    PreparedProgram::Instruction to{.kind = static_cast<Kind>(from.kind)};
    if (from.kind < 0 || from.kind > static_cast<int>(Kind::release)) wrong("is of no known kind");
    if (to.kind == Kind::copy || to.kind == Kind::reduce) {
      add_move(from, to);
    } else {
      if (from.peer < 0 || from.peer >= limits_.ranks || from.peer == limits_.rank)
        wrong("names peer " + std::to_string(from.peer) + " of " + std::to_string(limits_.ranks));
      to.peer = from.peer;
      to.reg = from.reg;
      to.multicast = from.multicast && multicasts_;
      add_message(to);
      if (to.multicast && to.kind == Kind::signal && !begins_multicast(to)) return;
    }
    plan_.instructions.push_back(to);
    first_.push_back(from.first);
  }

  // Of the run of signals that is a multicast, the first stands for all.
  bool begins_multicast(PreparedProgram::Instruction& to) {
    bool begins = multicast_to_.empty();
    if (begins && ++multicasts_sent_ > static_cast<std::int64_t>(limits_.depth))
      wrong("sends more multicasts than a lane has room for (" + std::to_string(limits_.depth) + ")");
    if (!multicast_to_.insert(to.peer).second) wrong("is a multicast that signals a peer twice");
    if (static_cast<int>(multicast_to_.size()) == limits_.ranks - 1) multicast_to_.clear();
    to.peer = -1;
    return begins;
  }

  void add_message(PreparedProgram::Instruction& to) {
    if (to.kind == Kind::signal) {
      sent_.insert(to.peer);
      if (to.reg >= 0 && !written_.contains(to.reg)) wrong("signals a slot that was never written");
      return;
    }
    auto& lane = taken_[to.peer][to.multicast];
    if (to.kind == Kind::wait) {
      sources_.insert(to.peer);
      lane.waited++;
      if (held(to.peer) > static_cast<std::int64_t>(limits_.depth))
        wrong("holds more messages of a peer than a lane has (" + std::to_string(limits_.depth) + ")");
      if (to.reg >= 0) {
        check_register(to.reg);
        plan_.message_registers = std::max(plan_.message_registers, to.reg + 1);
        received_[to.reg] = {&lane, lane.waited};
      }
    } else if (++lane.released > lane.waited) {
      wrong("releases a message that is not held");
    }
  }

  std::int64_t held(int peer) const {
    auto& [own, multicasts] = taken_[peer];
    return own.waited - own.released + multicasts.waited - multicasts.released;
  }

  void add_move(const Encoded::Instruction& from, PreparedProgram::Instruction& to) {
    auto end = std::int64_t(from.first) + from.targets + from.sources;
    if (from.first < 0 || from.targets < 1 || from.targets > PreparedProgram::most_targets || from.sources < 1 ||
        end > static_cast<std::int64_t>(program_.operands.size()) || (to.kind == Kind::copy && from.sources != 1))
      wrong("has operands out of place (1 or 2 targets; 1 source for a copy)");
    auto operands = program_.operands.subspan(from.first, from.targets + from.sources);
    to.targets = static_cast<std::uint8_t>(from.targets);
    to.sources = from.sources;
    to.operand = static_cast<std::uint32_t>(plan_.operands.size());
    to.pieces = pieces(operands);
    to.size = add_sizes(operands[0], to.pieces);
    reduces_ |= to.kind == Kind::reduce;
    plan_.most_sources = std::max(plan_.most_sources, from.sources);
    for (std::size_t k = 0; k < operands.size(); k++)
      k < static_cast<std::size_t>(from.targets) ? add_target(operands[k], to) : add_source(operands[k], to);
    if (to.slots > 1) wrong("writes two slots");
  }

  void add_target(const Encoded::Operand& o, PreparedProgram::Instruction& to) {
    auto space = static_cast<Space>(o.space);
    if (space == Space::message) wrong("writes a message");
    if (space == Space::slot) {
      check_register(o.index);
      to.slots++;
      to.reg = o.index;
      written_[o.index] = b_.sizes.subspan(o.label, o.count);
      plan_.slot_registers = std::max(plan_.slot_registers, o.index + 1);
      auto all = total(o);
      auto once = plan_.window > all / o.count ? all : plan_.window * o.count;
      if (std::min(all, once) * static_cast<std::int64_t>(plan_.item) > static_cast<std::int64_t>(slot_bytes_))
        wrong("writes more than the " + std::to_string(slot_bytes_) + " bytes of a slot: use a smaller window");
    } else if (space == Space::output) {
      for (int j = 0; j < o.count; j++) outputs_.insert({offset(space, o.index + j), size(o, j)});
    }
    add_operand(o, to);
  }

  void add_source(const Encoded::Operand& o, PreparedProgram::Instruction& to) {
    auto space = static_cast<Space>(o.space);
    if (space == Space::slot) {
      auto written = written_.find(o.index);
      if (to.slots && to.reg == o.index) wrong("reads the slot that it writes");
      if (written == written_.end()) wrong("reads a slot that was never written");
      if (!std::ranges::equal(written->second, b_.sizes.subspan(o.label, o.count)))
        wrong("reads other sizes than the slot was written in");
    } else if (space == Space::message) {
      auto received = received_.find(o.index);
      if (received == received_.end()) wrong("reads a message that never came");
      auto [lane, number] = received->second;
      if (number <= lane->released) wrong("reads a message that it has released");
    }
    add_operand(o, to);
  }

  void add_operand(const Encoded::Operand& o, const PreparedProgram::Instruction& to) {
    PreparedProgram::Operand operand{static_cast<Space>(o.space), o.index, 0};
    if (operand.space != Space::slot && operand.space != Space::message) {
      operand.first = static_cast<std::uint32_t>(plan_.offsets.size());
      for (std::uint32_t j = 0; j < to.pieces; j++) plan_.offsets.push_back(offset(operand.space, o.index + j));
      auto& extent = operand.space == Space::input ? plan_.input_bytes : plan_.output_bytes;
      for (int j = 0; j < o.count && operand.space != Space::scratch; j++)
        extent =
            std::max(extent, (offset(operand.space, o.index + j) + size(o, j)) * static_cast<std::int64_t>(plan_.item));
    }
    plan_.operands.push_back(operand);
  }

  void check_register(int reg) const {
    auto most = static_cast<std::int64_t>(program_.instructions.size()) + limits_.ranks;  // each is memory in a call
    if (reg < 0 || reg >= most)
      wrong("names register " + std::to_string(reg) + ": a program of its length needs fewer than " +
            std::to_string(most));
  }

  std::int64_t size(const Encoded::Operand& o, int j) const { return b_.sizes[o.label + j]; }

  std::int64_t total(const Encoded::Operand& o) const {
    std::int64_t sum = 0;
    for (int j = 0; j < o.count; j++) sum += size(o, j);
    return sum;
  }

  std::int64_t offset(Space space, std::int64_t index) const {
    if (space == Space::scratch) return index * largest_;
    return (space == Space::input ? b_.input_offsets : b_.output_offsets)[index];
  }

  // Checks that the operands agree; returns their number of runs of elements: 1 where all of them are contiguous.
  std::uint32_t pieces(std::span<const Encoded::Operand> operands) const {
    std::int64_t count = operands[0].count;
    bool flat = count == 1 || plan_.windows == 1;
    for (auto& o : operands) {
      if (o.space < 0 || o.space > static_cast<int>(Space::message)) wrong("names no known space");
      if (o.count < 1 || o.count != count) wrong("has operands of different numbers of chunks");
      if (o.label < 0 || o.label + count > static_cast<std::int64_t>(b_.sizes.size()))
        wrong("names a chunk of " + std::to_string(b_.sizes.size()) + " that does not exist");
      for (int j = 0; j < count; j++)
        if (size(o, j) != size(operands[0], j)) wrong("has operands of different sizes");
      auto space = static_cast<Space>(o.space);
      if (space == Space::slot || space == Space::message) continue;
      auto room =
          space == Space::scratch
              ? b_.scratch
              : static_cast<std::int64_t>((space == Space::input ? b_.input_offsets : b_.output_offsets).size());
      if (o.index < 0 || o.index + count > room)
        wrong("steps outside its memory: chunk " + std::to_string(o.index + count - 1) + " of " + std::to_string(room));
      for (int j = 0; j + 1 < count; j++)
        flat &= offset(space, o.index + j) + size(o, j) == offset(space, o.index + j + 1);
    }
    return flat ? 1 : static_cast<std::uint32_t>(count);
  }

  std::uint32_t add_sizes(const Encoded::Operand& o, std::uint32_t pieces) {
    auto first = static_cast<std::uint32_t>(plan_.sizes.size());
    auto all = total(o);
    if (pieces == 1)
      plan_.sizes.push_back(all);
    else
      for (int j = 0; j < o.count; j++) plan_.sizes.push_back(size(o, j));
    plan_.moved_bytes += static_cast<std::size_t>(all) * plan_.item;
    return first;
  }

  // Marks, of every slot, the last instruction that names it before it is written anew.
  void find_last_uses() {
    std::vector<bool> named(plan_.slot_registers, false);
    for (auto i = plan_.instructions.rbegin(); i != plan_.instructions.rend(); ++i) {
      if (i->kind == Kind::signal && i->reg >= 0) {
        i->last = !named[i->reg];
        named[i->reg] = true;
      }
      if (i->kind != Kind::copy && i->kind != Kind::reduce) continue;
      if (i->slots) {
        i->last = !named[i->reg];
        named[i->reg] = false;
      }
      for (int k = i->targets; k < i->targets + i->sources; k++) {
        auto& o = plan_.operands[i->operand + k];
        if (o.space != Space::slot || named[o.reg]) continue;
        o.last = named[o.reg] = true;
      }
    }
  }

  // A slot is lazy when its signals follow at once and nothing else names it: its bytes may be sent from where they
  // are. Messages that are given back in between change nothing in this rank's memory; only what is sent on straight
  // from a message must be sent before.
  void find_lazy() {
    auto& all = plan_.instructions;
    for (std::size_t at = 0; at < all.size(); at++) {
      auto& i = all[at];
      if (!i.slots || i.last) continue;
      std::size_t next = at + 1;
      if (i.kind == Kind::reduce || sent_in_place(plan_, i))
        while (next < all.size() && all[next].kind == Kind::release) next++;
      std::set<int> peers;
      bool once = true;
      for (; next < all.size() && all[next].kind == Kind::signal && all[next].reg == i.reg; next++) {
        once &= !all[next].multicast && peers.insert(all[next].peer).second;
        if ((i.lazy = all[next].last)) break;
      }
      i.placeable = i.lazy && once && i.kind == Kind::reduce && i.pieces == 1;
    }
  }

  // Finds each instruction's chunk: of a signal, the last one written to its slot; of a wait, the one read of its
  // message.
  void find_subjects() {
    std::vector<std::int32_t> staged(plan_.slot_registers, -1);
    std::vector<PreparedProgram::Instruction*> came(plan_.message_registers);
    for (std::size_t at = 0; at < plan_.instructions.size(); at++) {
      auto& i = plan_.instructions[at];
      if (i.kind == Kind::signal && i.reg >= 0) i.chunk = staged[i.reg];
      if (i.kind == Kind::wait && i.reg >= 0) came[i.reg] = &i;
      if (i.kind != Kind::copy && i.kind != Kind::reduce) continue;
      auto& first = program_.operands[first_[at]];
      if (first.count == 1) i.chunk = first.label;
      if (i.slots) staged[i.reg] = i.chunk;
      for (int k = i.targets + i.sources - 1; k >= i.targets; k--) {
        auto& o = plan_.operands[i.operand + k];
        if (o.space != Space::message) continue;
        i.peer = came[o.reg]->peer;
        came[o.reg]->chunk = i.chunk;
      }
    }
  }

  const Encoded& program_;
  const Binding& b_;
  const Limits& limits_;
  PreparedProgram plan_;
  std::vector<std::int32_t> first_;  // operand, of each instruction of the plan
  std::size_t at_ = 0;
  std::int64_t largest_ = 0;
  std::size_t slot_bytes_ = 0;
  bool reduces_ = false;
  bool multicasts_ = false;
  std::int64_t multicasts_sent_ = 0;
  std::set<int> multicast_to_;  // of the one that is being added
  // The messages that the program has taken of a lane so far, and of a multicast.
  struct Taken {
    std::int64_t waited = 0, released = 0;
  };
  std::vector<std::array<Taken, 2>> taken_;  // of each peer
  std::set<int> sent_, sources_;
  std::map<int, std::span<const std::int64_t>> written_;           // the sizes in each slot register
  std::map<int, std::pair<const Taken*, std::int64_t>> received_;  // the number of each register's message
  std::set<std::pair<std::int64_t, std::int64_t>> outputs_;
};

}  // namespace

PreparedProgram bind(const Encoded& program, const Binding& binding, const Limits& limits) {
  return Binder(program, binding, limits).bind();
}

}  // namespace ringtree
