// Which bytes of a rank a peer may write for it, by the rank's own program.
//
// A rank that sends its part of a chunk and gets the chunk's sum back from the same peer copies the sum to a place that
// nothing touches in between. Its message may carry that place along as a grant: the peer then writes the sum there,
// and the copy has nothing to do.
#include <map>
#include <utility>

#include "interpreter/stretch.h"

namespace ringtree {

namespace {

class Granter {
 public:
  Granter(PreparedProgram& plan, std::int64_t aliasing)
      : plan_(plan), aliasing_(aliasing), reads_(plan.instructions.size(), 0) {}

  void find() {
    count_reads();
    std::vector<Came> came(plan_.message_registers);
    std::vector<Slot> slots(plan_.slot_registers);
    std::map<int, std::int32_t> waits;  // by peer
    for (std::size_t at = 0; at < plan_.instructions.size(); at++) {
      auto& i = plan_.instructions[at];
      switch (i.kind) {
        case Kind::signal:
          i.grant = -1;
          if (i.reg < 0 || i.multicast) break;
          if (slots[i.reg].signals++ == 0 && i.last && i.chunk >= 0)
            sent_[{i.peer, i.chunk}] = {at, slots[i.reg].written, waits[i.peer]};
          break;
        case Kind::wait:
          if (!i.multicast) waits[i.peer]++;
          if (i.reg >= 0) came[i.reg] = {at, i.multicast ? -1 : waits[i.peer]};
          break;
        case Kind::release:
          break;
        default:
          if (i.kind == Kind::copy) pair(at, came);
          if (i.slots) slots[i.reg] = {at, 0};
      }
    }
  }

 private:
  struct Came {
    std::size_t at = 0;
    std::int32_t number = -1;  // of the peer's messages in the program
  };
  struct Slot {
    std::size_t written = 0;
    int signals = 0;
  };
  struct Sent {
    std::size_t at, written;
    std::int32_t waits;  // for the peer's messages before it
  };

  // How often each wait's message is read.
  void count_reads() {
    std::vector<std::size_t> came(plan_.message_registers);
    for (std::size_t at = 0; at < plan_.instructions.size(); at++) {
      auto& i = plan_.instructions[at];
      if (i.kind == Kind::wait && i.reg >= 0) came[i.reg] = at;
      for (int k = i.targets; k < i.targets + i.sources; k++)
        if (auto& o = plan_.operands[i.operand + k]; o.space == Space::message) reads_[came[o.reg]]++;
    }
  }

  // Grants the target of the copy at `to` by the last message to its peer about the same chunk, where that is sound.
  void pair(std::size_t to, const std::vector<Came>& came) {
    auto& copy = plan_.instructions[to];
    auto& source = plan_.operands[copy.operand + copy.targets];
    if (source.space != Space::message || copy.pieces != 1 || copy.chunk < 0) return;
    auto& message = came[source.reg];
    auto found = sent_.find({copy.peer, copy.chunk});
    if (message.number < 0 || reads_[message.at] != 1 || found == sent_.end() || found->second.at > message.at) return;
    auto sent = found->second;
    for (int k = 0; k < copy.targets; k++) {
      auto& o = plan_.operands[copy.operand + k];
      if (o.space != Space::input && o.space != Space::output) continue;
      auto place = stretch(plan_, o, plan_.sizes[copy.size], aliasing_);
      if (!apart_or_the_same(plan_.instructions[sent.written], place) || touched(place, sent.at, to, k)) return;
      plan_.instructions[sent.at].grant = static_cast<std::int32_t>(copy.operand) + k;
      plan_.instructions[sent.at].ahead = message.number - sent.waits;
      sent_.erase(found);
      return;
    }
  }

  // Whether the peer that writes there overwrites nothing of the message with the grant but what it has just read.
  bool apart_or_the_same(const PreparedProgram::Instruction& written, const Stretch& place) const {
    auto left = written.lazy && written.pieces == 1 ? sent_in_place(plan_, written) : nullptr;
    if (!left) return true;
    auto bytes = stretch(plan_, *left, plan_.sizes[written.size], aliasing_);
    return bytes == place || !bytes.overlaps(place);
  }

  // Whether an instruction in between reads or writes there, or the copy by another operand than this one.
  bool touched(const Stretch& place, std::size_t after, std::size_t copy, int but) const {
    for (std::size_t at = after + 1; at <= copy; at++) {
      auto& i = plan_.instructions[at];
      for (int k = 0; k < i.targets + i.sources; k++) {
        auto o = plan_.operands[i.operand + k];
        if (!in_memory(o) || (at == copy && k == but)) continue;
        for (std::uint32_t piece = 0; piece < i.pieces; piece++, o.first++)
          if (place.overlaps(stretch(plan_, o, plan_.sizes[i.size + piece], aliasing_))) return true;
      }
    }
    return false;
  }

  PreparedProgram& plan_;
  std::int64_t aliasing_;
  std::vector<int> reads_;                             // of the message of each wait
  std::map<std::pair<int, std::int32_t>, Sent> sent_;  // the last message alone in its slot, by peer and chunk
};

}  // namespace

void find_grants(PreparedProgram& plan, std::int64_t aliasing) {
  Granter(plan, aliasing).find();
}

}  // namespace ringtree
