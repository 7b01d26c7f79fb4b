// The interpreter of programs on devices: each thread block runs the whole program over its share of every chunk, and
// exchanges messages with the same block of other ranks, so no block waits for another of its rank. A message is a
// descriptor in the receiver's memory; its bytes are read where they lie, in a slot of the sender or in its array.
//
// `Platform` is what differs: threads and memory order. device/cuda.h compiles it for a GPU at run time, device/host.cc
// for this machine's processor.
#pragma once

#include "device/addresses.h"
#include "device/kept_tables.h"
#include "device/waits.h"

namespace ringtree::device {

template <class Platform>
class Interpreter : private Addresses, private Waits<Platform> {
 public:
  Interpreter(const Call& call, const Tables<Platform>& tables, Registers& shared, int block)
      : Addresses(call, tables.program(), tables.lanes(), tables.regions(), shared, block),
        Waits<Platform>(call, tables.lanes(), tables.regions(), tables.counters(), block),
        tables_(tables),
        counters_(tables.counters()) {}

  void run() {
    if (!tables_.stopped()) interpret();
    bool last = call_.to == p_.length && call_.last_window == p_.windows;
    if (block_ == 0 && last && Platform::thread() == 0) *call_.ended = call_.number;
  }

 private:
  using Waits<Platform>::arrival, Waits<Platform>::credit, Waits<Platform>::fail, Waits<Platform>::has_room;
  using Waits<Platform>::returned, Waits<Platform>::until;

  void interpret() {
    if (call_.from > 0) load_registers();
    for (int64_t window = call_.first_window; window < call_.last_window; window++) {
      begin_window(window);
      for (int at = call_.from; at < call_.to;) {
        int next = step(at, window);
        if (next < 0) return;
        at = next;
      }
      if (call_.to == p_.length && p_.finishes && !finish(window)) return;
    }
    if (call_.to < p_.length) {
      save_registers();
    } else {
      Platform::barrier();  // the counters are up to date
      if (call_.last_window == p_.windows && !l_.tolls && !settle_all(call_.to)) return;
    }
    tables_.keep_counters();
  }

  // The counters of messages to a peer when the window began: where `settles` count from.
  void begin_window(int64_t window) {
    taken_to_ = 0;
    if (call_.from > 0) return;
    if (window > call_.first_window) Platform::barrier();  // the counters are up to date
    for (int peer = Platform::thread(); peer < l_.ranks; peer += Platform::threads()) {
      shared_.base(peer) = counters_[peer].sent;
      shared_.home(peer) = nowhere;
    }
    for (int k = Platform::thread(); k < l_.slots; k += Platform::threads()) shared_.named_until(k) = -1;
    Platform::barrier();
  }

  // Runs an instruction, or a run of them; returns the next one's number, -1 where the call has failed.
  int step(int at, int64_t window) {
    const Instruction& i = instruction(at);
    switch (i.kind) {
      case copy:
      case reduce:
        return move(at, i, window) ? at + 1 : -1;
      case signal:
        return send(at, i.run) ? at + i.run : -1;
      case wait:
        if (at >= taken_to_ && i.takes > 1 && at + 3 * i.takes <= call_.to && !take(at, i.takes)) return -1;
        if (at < taken_to_ && shared_.taken((at - taken_from_) / 3)) return at + 3;
        return receive(at, i.run) ? at + i.run : -1;
      default:
        give_back(at, i.run);
        return at + i.run;
    }
  }

  // ---- messages

  // Of this rank, at a peer.
  Toll* toll(int peer) const { return reinterpret_cast<Toll*>(regions_[peer] + l_.tolls) + l_.rank; }

  // The signals of a run, each by a thread of its own.
  bool send(int at, int run) {
    Platform::barrier();  // the slot's bytes are written
    bool failed = false;
    for (int k = Platform::thread(); k < run; k += Platform::threads()) {
      const Instruction& i = instruction(at + k);
      Counters& c = counters_[i.peer];
      if (!has_room(at + k, i.peer, c.sent + 1, l_.slots)) {
        failed = true;
        continue;
      }
      Descriptor* d = arrival(i.peer, l_.rank, c.sent);
      c.sent++;
      d->home = static_cast<uint64_t>(call_.output_place);
      if (i.reg >= 0) d->place = sent_from(i, c);
      Platform::release(&d->mark, mark_of(p_.print, c.sent));
      if (l_.tolls) Platform::add(&toll(i.peer)->arrived);
    }
    return !Platform::any(failed);
  }

  // Where the bytes of a signal's message lie, and until when they must.
  uint64_t sent_from(const Instruction& i, Counters& c) {
    const Slot& s = shared_.slot(i.reg);
    if (s.held == has_landed) return there;
    if (s.held >= 0)
      slot_until(s.held)[i.peer] = c.sent;
    else
      c.pending = c.sent;
    return s.place;
  }

  bool receive(int at, int run) {
    bool failed = false;
    for (int k = Platform::thread(); k < run; k += Platform::threads()) {
      const Instruction& i = instruction(at + k);
      failed |= !arrives(at + k, i.peer);
      if (failed) continue;
      uint64_t place = accept(i.peer);
      if (i.reg < 0) continue;
      Message m{nullptr, landed, 0};
      if (place != there) m = {region(place, i.peer), place >> region_shift ? lying : packed, 0};
      shared_.message(i.reg) = m;
    }
    return !Platform::any(failed);
  }

  // The descriptor of the next message from a peer.
  Descriptor* next_from(int peer) const { return arrival(l_.rank, peer, counters_[peer].taken); }

  // Whether the next message from a peer has come, and its mark.
  bool has_come(int peer, uint64_t& mark) const {
    mark = Platform::acquire(&next_from(peer)->mark);
    return mark && static_cast<uint32_t>(mark) == counters_[peer].taken + 1;
  }

  // Waits in this thread for the next message from a peer; false where the call has failed.
  bool arrives(int at, int peer) {
    uint64_t mark = 0;
    if (!until(at, peer, [&] { return has_come(peer, mark); })) return false;
    if (static_cast<uint32_t>(mark >> 32) == p_.print) return true;
    return fail(mismatch, at, peer, static_cast<uint32_t>(mark >> 32));
  }

  // Counts a message that has come; the place of its bytes.
  uint64_t accept(int peer) {
    Descriptor* d = next_from(peer);
    counters_[peer].taken++;
    shared_.home(peer) = static_cast<int64_t>(Platform::read(&d->home));
    return Platform::read(&d->place);
  }

  // Messages of several peers that are copied to the output: those that have landed there are given back at once, each
  // by a thread of its own. As soon as one comes that has not landed, no other is waited for: it is to be given back
  // first, as a peer may wait for that before it sends.
  bool take(int at, int takes) {
    volatile uint32_t& others = shared_.others_came();
    if (Platform::thread() == 0) others = 0;
    Platform::barrier();
    bool failed = false;
    for (int k = Platform::thread(); k < takes; k += Platform::threads()) {
      int peer = instruction(at + 3 * k).peer;
      uint64_t mark = 0;
      failed |= !until(at + 3 * k, peer, [&] { return has_come(peer, mark) || Platform::stop(&others); });
      bool comes = !failed && has_come(peer, mark), same_call = static_cast<uint32_t>(mark >> 32) == p_.print;
      bool is_here = comes && same_call && Platform::read(&next_from(peer)->place) == there;
      shared_.taken(k) = is_here;
      if (comes && !is_here) others = 1;
      if (!is_here) continue;
      accept(peer);
      give_back_to(peer);
    }
    taken_from_ = at;
    taken_to_ = at + 3 * takes;
    return !Platform::any(failed);
  }

  void give_back(int at, int run) {
    Platform::barrier();  // the messages' bytes are read
    for (int k = Platform::thread(); k < run; k += Platform::threads()) give_back_to(instruction(at + k).peer);
  }

  void give_back_to(int peer) {
    Platform::release(&credit(peer, l_.rank)->given, ++counters_[peer].given);
    if (l_.tolls) Platform::add(&toll(peer)->returned);
  }

  // ---- slots

  uint32_t* slot_until(int number) const {
    return l_.slot_until + (static_cast<int64_t>(block_) * l_.slots + number) * l_.ranks;
  }

  // Whether an instruction may have a slot: no other names it from then on, and no peer reads it.
  bool free_slot(int at, int number) const {
    if (shared_.named_until(number) >= at) return false;
    auto until = slot_until(number);
    for (int peer = 0; peer < l_.ranks; peer++)
      if (peer != l_.rank && static_cast<int32_t>(returned(peer) - until[peer]) < 0) return false;
    return true;
  }

  // Takes a slot that no peer reads any more, the next in turn if that is free.
  bool take_slot(int at, const Instruction& i) {
    bool failed = false;
    if (Platform::thread() == 0) {
      int& last = l_.last_slot[block_];
      int found = -1;
      failed = !until(at, -1, [&] {
        for (int k = 1; k <= l_.slots && found < 0; k++)
          if (int number = (last + k) % l_.slots; free_slot(at, number)) found = number;
        return found >= 0;
      });
      if (!failed) {
        last = found;
        shared_.named_until(found) = i.named_until;
        int64_t own = block_ * (l_.slot_bytes / call_.blocks / 16 * 16);
        shared_.slot(i.reg) = {static_cast<uint64_t>(l_.staging + found * l_.slot_bytes + own), found, 0};
      }
    }
    return !Platform::any(failed);
  }

  // Waits until peers have read what this instruction overwrites.
  bool settle(int at, const Instruction& i) {
    int which = call_.same ? 1 : 0;
    bool failed = false;
    for (int k = Platform::thread(); k < i.settles[which]; k += Platform::threads()) {
      const Settle& s = settles(i.settle[which])[k];
      uint32_t number = shared_.base(s.peer) + s.nth;
      if (static_cast<int32_t>(counters_[s.peer].pending - number) < 0) continue;  // it was staged
      failed |= !until(at, s.peer, [&] { return static_cast<int32_t>(returned(s.peer) - number) >= 0; });
    }
    return !Platform::any(failed);
  }

  // Waits until no peer reads this rank's arrays any more.
  bool settle_all(int at) {
    bool failed = false;
    for (int peer = Platform::thread(); peer < l_.ranks; peer += Platform::threads()) {
      Counters& c = counters_[peer];
      bool old = c.sent - c.slots_renewed >= renewed_after;  // numbers wrap
      uint32_t number = !old && c.sent - c.pending < renewed_after ? c.pending : c.sent;
      if (peer == l_.rank || !(c.pending || old)) continue;
      bool settled = until(at, peer, [&] { return static_cast<int32_t>(returned(peer) - number) >= 0; });
      failed |= !settled;
      if (number == c.sent) c.pending = number;
      if (!old || !settled) continue;
      for (int k = 0; k < l_.slots; k++) slot_until(k)[peer] = number;
      c.slots_renewed = number;
    }
    return !Platform::any(failed);
  }

  // ---- bytes

  // What an instruction writes: `own` of its targets, a slot last, and `more` places at peers.
  struct Targets {
    int own, more;
  };

  // Chooses where the messages of an instruction's slot go; false where the call has failed.
  bool choose(int at, const Instruction& i, int64_t window, Targets& found) {
    found = {i.targets, 0};
    if (i.reg < 0) return true;
    int64_t place = nowhere;
    int held = in_arrays;
    if (all_land(i)) {
      found = {i.targets - 1, i.lands};
      held = has_landed;
      place = 0;
    } else if ((place = place_of(i, window)) != nowhere) {
      found.own--;
    }
    if (place == nowhere) return take_slot(at, i);
    if (Platform::thread() == 0) shared_.slot(i.reg) = {static_cast<uint64_t>(place), held, 0};
    return true;
  }

  bool move(int at, const Instruction& i, int64_t window) {
    const Operand* o = operands(i);
    Platform::barrier();  // what the instructions before have written
    if (i.kind == copy && o[i.targets].space == message && shared_.message(o[i.targets].index).form == landed)
      return true;
    Targets found;
    if (!choose(at, i, window, found)) return false;
    if (i.settles[call_.same ? 1 : 0] && !settle(at, i)) return false;
    int targets = found.own + found.more;
    if (targets == 0) return true;
    for (int piece = 0; piece < o->count; piece++) {
      int64_t begin, end;
      share(size(o->label + piece), window, begin, end);
      if (begin == end) continue;
      if (piece) Platform::barrier();
      find_addresses(i, found, piece, window, begin);
      if (i.kind == copy)
        Platform::copy(shared_, targets, targets, (end - begin) * p_.item);
      else
        Platform::reduce(p_.arithmetic, shared_, targets, targets, i.sources, end - begin, (end - begin) * p_.item);
    }
    return true;
  }

  // Puts the addresses of what an instruction works on beside the registers, each by a thread of its own.
  void find_addresses(const Instruction& i, const Targets& found, int piece, int64_t window, int64_t begin) {
    const Operand* o = operands(i);
    int own = found.own, targets = own + found.more;
    for (int k = Platform::thread(); k < targets + i.sources; k += Platform::threads())
      shared_.at(k) = k < own       ? address(o[k], piece, window, begin)
                      : k < targets ? landing_at(lands(i)[k - own], *o, piece, window, begin)
                                    : address(o[i.targets + k - targets], piece, window, begin);
    Platform::barrier();
  }

  // The end of an average, of this rank's results of the window.
  bool finish(int64_t window) {
    Platform::barrier();
    if (!settle_all(p_.length)) return false;
    for (int k = 0; k < p_.runs; k++) {
      int64_t begin, end;
      share(written(k).size, window, begin, end);
      if (begin < end)
        Platform::finish(p_.arithmetic, call_.output + (written(k).offset + window * p_.window + begin) * p_.item,
                         end - begin, l_.ranks);
    }
    Platform::barrier();
    return true;
  }

  // ---- a program in several launches

  int64_t* saved() const { return l_.registers + static_cast<int64_t>(block_) * Registers::words; }

  void load_registers() {
    for (int k = Platform::thread(); k < Registers::words; k += Platform::threads()) shared_.all()[k] = saved()[k];
    Platform::barrier();
  }
  void save_registers() {
    Platform::barrier();
    for (int k = Platform::thread(); k < Registers::words; k += Platform::threads()) saved()[k] = shared_.all()[k];
  }

  const Tables<Platform>& tables_;
  Counters* counters_;
  int taken_from_ = 0, taken_to_ = 0;  // the instructions of messages that were taken together
};

}  // namespace ringtree::device
