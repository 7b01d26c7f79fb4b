// Small calls, whose messages travel in flagged words: the sender writes them where the receiver looks for them, and a
// reader that finds the mark of its message has the bytes. Nothing else is waited for, and the host has worked out all
// addresses but the arrays' and the numbers of messages: a kernel of little code, whose first run from a cold cache
// of instructions is what a small call takes.
#pragma once

#include "device/kept_tables.h"
#include "device/waits.h"

namespace ringtree::device {

// What a block of a small call works on, beside its tables: addresses; the marks of flagged messages, else 0; and, of
// those that come, the descriptor of the first of the call, which names another call that the sender has made.
struct Resolved {
  uint8_t* at[most_resolved];
  uint64_t marks[most_resolved];
  const Descriptor* descriptors[most_resolved];
};

template <class Platform>
class FlaggedInterpreter {
 public:
  FlaggedInterpreter(const Call& call, const Tables<Platform>& tables, Resolved& resolved, int block)
      : call_(call),
        l_(tables.lanes()),
        p_(tables.flagged_program()),
        regions_(tables.regions()),
        resolved_(resolved),
        waits_(call, tables.lanes(), tables.regions(), tables.counters(), block),
        tables_(tables) {}

  void run(int block) {
    if (!tables_.stopped()) interpret();
    if (block == 0 && Platform::thread() == 0) *call_.ended = call_.number;
  }

 private:
  void interpret() {
    bool failed = false;
    for (int k = Platform::thread(); k < p_.operands; k += Platform::threads()) resolve(k);
    for (int peer = Platform::thread(); peer < l_.ranks; peer += Platform::threads()) failed |= !announce(peer);
    if (Platform::any(failed)) return;
    // No step waits for the one before it: what a thread reads of memory, it has written itself, as it has the same
    // part of a chunk in each step but the end of an average.
    for (int k = 0; k < p_.steps; k++) {
      const Step& step = p_.step(l_.ranks)[k];
      if (step.kind == finishing && Platform::any(failed)) return;
      failed = failed || !perform(k, step);
    }
    if (Platform::any(failed)) return;
    for (int peer = Platform::thread(); peer < l_.ranks; peer += Platform::threads()) conclude(peer);
  }

  void resolve(int k) {
    const Resolving& o = p_.operand(l_.ranks)[k];
    Counters& c = waits_.counters(o.peer);
    uint8_t* base = call_.input;
    uint32_t number = o.nth + (o.space == slot ? c.sent : c.taken);
    if (o.space == output) base = call_.output;
    if (o.space == scratch) base = call_.scratch;
    bool flagged = o.space >= slot;
    if (flagged) base = regions_[o.space == slot ? o.peer : l_.rank] + number % messages_in_lane * 2 * l_.flagged_bytes;
    resolved_.at[k] = base + o.offset;
    resolved_.marks[k] = flagged ? mark_of(p_.print, number) : 0;
    if (o.space == message) resolved_.descriptors[k] = waits_.arrival(l_.rank, o.peer, c.taken);
  }

  // Waits until the lane to a peer has room for all messages of the call, which peers give back at the end of calls,
  // and writes their descriptors: these name the call to whom its messages do not come.
  bool announce(int peer) {
    int sends = p_.numbers()[peer].sends;
    Counters& c = waits_.counters(peer);
    if (!sends) return true;
    if (!waits_.has_room(0, peer, c.sent + sends, messages_in_lane)) return false;
    if (c.sent - c.renewed >= renewed_after && !renew(peer)) return false;
    for (int k = 1; k <= sends; k++) {
      Descriptor* d = waits_.arrival(peer, l_.rank, c.sent + k - 1);
      Platform::write(&d->mark, mark_of(p_.print, c.sent + k));
    }
    return true;
  }

  // Numbers are of 32 bits, and a word may lie for as long as no message is as long as the one that wrote it: once in
  // so many messages a lane's words lose their marks.
  bool renew(int peer) {
    Counters& c = waits_.counters(peer);
    if (!waits_.until(0, peer, [&] { return static_cast<int32_t>(waits_.returned(peer) - c.sent) >= 0; })) return false;
    int64_t lane = static_cast<int64_t>(l_.rank) * l_.blocks + tables_.block();
    auto words =
        reinterpret_cast<FlaggedWord*>(regions_[peer] + l_.flagged + lane * messages_in_lane * 2 * l_.flagged_bytes);
    for (int64_t k = 0; k < messages_in_lane * l_.flagged_bytes / 8; k++) Platform::put(words + k, FlaggedWord{0, 0});
    for (int k = 0; k < l_.slots; k++)  // what the general interpreter compares numbers with
      l_.slot_until[(static_cast<int64_t>(tables_.block()) * l_.slots + k) * l_.ranks + peer] = c.sent;
    c.pending = c.renewed = c.slots_renewed = c.sent;
    return true;
  }

  bool perform(int number, const Step& step) {
    uint8_t* const* at = resolved_.at + step.first;
    const uint64_t* marks = resolved_.marks + step.first;
    if (step.kind == finishing) {
      Platform::finish(p_.arithmetic, at[0], step.elements, l_.ranks);
      return true;
    }
    return Platform::exchange(p_.arithmetic, step, at, marks, [&](int k, uint32_t turn, uint64_t& since_ns) {
      int operand = step.first + k;
      const Resolving& o = p_.operand(l_.ranks)[operand];
      uint64_t first = mark_of(p_.print, static_cast<uint32_t>(resolved_.marks[operand]) - o.nth + 1);
      return may_come(call_, resolved_.descriptors[operand], first, Status{fine, o.peer, number, tables_.block(), 0, 0},
                      turn, since_ns);
    });
  }

  // Asked, turn after turn, by a thread that does not find a flagged message: false where it will not come. `mark`: of
  // the sender's first message of the call; `at`: whose it is, and where the message is read.
  RINGTREE_APART static bool may_come(const Call& call, const Descriptor* descriptor, uint64_t mark, Status at,
                                      uint32_t turn, uint64_t& since_ns) {
    if (turn == 1) since_ns = Platform::now_ns();
    if (turn % Platform::turns) return true;
    uint64_t found = Platform::acquire(&descriptor->mark);
    at.print = static_cast<uint32_t>(found >> 32);
    bool differs = at.print && found != mark && static_cast<uint32_t>(found) == static_cast<uint32_t>(mark);
    bool is_late = Platform::now_ns() - since_ns > call.limit_ns;
    at.outcome = differs ? mismatch : Platform::stop(call.stop) ? stopped : is_late ? late : fine;
    if (at.outcome == fine) {
      Platform::pause(turn);
      return true;
    }
    if (at.outcome != stopped) Platform::report(call.status, at);
    *call.stop = 1;
    return false;
  }

  // Gives a peer's messages back, all of which were read, and counts.
  void conclude(int peer) {
    const Numbers& n = p_.numbers()[peer];
    if (!n.sends && !n.receives) return;
    Counters& c = waits_.counters(peer);
    c.sent += n.sends;
    c.taken += n.receives;
    c.given += n.receives;
    if (n.receives) Platform::write(&waits_.credit(peer, l_.rank)->given, c.given);
    tables_.keep_counter(peer);
  }

  const Call& call_;
  const Lanes& l_;
  const FlaggedProgram& p_;
  uint8_t* const* regions_;
  Resolved& resolved_;
  Waits<Platform> waits_;
  const Tables<Platform>& tables_;
};

}  // namespace ringtree::device
