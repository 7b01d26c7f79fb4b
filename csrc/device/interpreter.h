// The interpreter of programs on devices: each thread block runs the whole program over its share of every chunk, and
// exchanges messages with the same block of other ranks, so no block waits for another of its rank. A message is a
// descriptor in the receiver's memory; its bytes are read where they lie, in a slot of the sender or in its array.
//
// `Platform` is what differs: threads and memory order. device/cuda.h compiles it for a GPU at run time, device/host.cc
// for this machine's processor.
#pragma once

#include "device/addresses.h"
#include "device/kept_tables.h"

namespace ringtree::device {

template <class Platform>
class Interpreter : private Addresses {
 public:
  Interpreter(const Call& call, const Tables<Platform>& tables, Registers& shared, int block)
      : Addresses(call, tables.program(), tables.lanes(), shared, block),
        counters_(l_.counters + static_cast<int64_t>(block) * l_.ranks) {}

  void run() {
    if (!Platform::any(Platform::thread() == 0 && Platform::stop(call_.stop))) interpret();
    bool last = call_.to == p_.length && call_.last_window == p_.windows;
    if (block_ == 0 && last && Platform::thread() == 0) Platform::post(&call_.status->ended, ++*l_.ended);
  }

 private:
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
    if (call_.to < p_.length)
      save_registers();
    else if (call_.last_window == p_.windows && !l_.tolls)
      settle_all(call_.to);
  }

  // The counters of messages to a peer when the window began: what `settles` count from.
  void begin_window(int64_t) {
    if (call_.from > 0) return;
    for (int peer = Platform::thread(); peer < l_.ranks; peer += Platform::threads()) {
      shared_.base(peer) = counters_[peer].sent;
      shared_.home(peer) = nowhere;
    }
    Platform::barrier();
  }

  // Runs an instruction, or a run of them; returns the next one's number, -1 where the call has failed.
  int step(int at, int64_t window) {
    const Instruction& i = p_.instructions[at];
    switch (i.kind) {
      case copy:
      case reduce:
        return move(at, i, window) ? at + 1 : -1;
      case signal:
        return send(at, i.run) ? at + i.run : -1;
      case wait:
        return receive(at, i.run) ? at + i.run : -1;
      default:
        give_back(at, i.run);
        return at + i.run;
    }
  }

  // ---- messages

  Descriptor* arrival(uint8_t* region, int sender, uint32_t number) const {
    auto lane = reinterpret_cast<Descriptor*>(region + l_.arrivals) +
                (static_cast<int64_t>(sender) * l_.blocks + block_) * l_.slots;
    return lane + number % l_.slots;
  }
  Credit* credit(uint8_t* region, int receiver) const {
    return reinterpret_cast<Credit*>(region + l_.credits) + static_cast<int64_t>(receiver) * l_.blocks + block_;
  }
  // Of this rank, at a peer.
  Toll* toll(uint8_t* region) const { return reinterpret_cast<Toll*>(region + l_.tolls) + l_.rank; }
  uint32_t returned(int peer) const { return Platform::acquire(&credit(l_.regions[l_.rank], peer)->given); }

  // Waits in this thread; false where the call has failed. Waits hold no block: all others of the rank go on.
  template <class Ready>
  bool until(int at, int peer, Ready ready) {
    if (ready()) return true;
    uint64_t begun_ns = Platform::now_ns();
    for (uint32_t turn = 1;; turn++) {
      if (ready()) return true;
      if (turn % Platform::turns) continue;
      if (Platform::stop(call_.stop)) return fail(stopped, at, peer, 0);
      if (Platform::now_ns() - begun_ns > call_.limit_ns) return fail(late, at, peer, 0);
      Platform::pause(turn);
    }
  }

  bool fail(Outcome outcome, int at, int peer, uint32_t print) {
    if (outcome != stopped) Platform::report(call_.status, Status{outcome, peer, at, block_, print, 0});
    *call_.stop = 1;
    return false;
  }

  // The signals of a run, each by a thread of its own.
  bool send(int at, int run) {
    Platform::barrier();  // the slot's bytes are written
    bool failed = false;
    for (int k = Platform::thread(); k < run; k += Platform::threads()) {
      const Instruction& i = p_.instructions[at + k];
      Counters& c = counters_[i.peer];
      failed |= c.sent - c.credited >= static_cast<uint32_t>(l_.slots) && !until(at + k, i.peer, [&] {
                  c.credited = returned(i.peer);
                  return c.sent - c.credited < static_cast<uint32_t>(l_.slots);
                });
      if (failed) continue;
      Descriptor* d = arrival(l_.regions[i.peer], l_.rank, c.sent);
      c.sent++;
      d->home = static_cast<uint64_t>(call_.output_place);
      if (i.tiny) {
        d->place = shared_.tiny_slot(i.reg);
      } else if (i.reg >= 0) {
        d->place = shared_.slot(i.reg);
        int held = shared_.held(i.reg);
        if (held == has_landed)
          d->place = there;
        else if (held >= 0)
          l_.slot_until[(static_cast<int64_t>(block_) * l_.slots + held) * l_.ranks + i.peer] = c.sent;
        else
          c.pending = c.sent;
      }
      Platform::release(&d->mark, static_cast<uint64_t>(p_.print) << 32 | c.sent);
      if (l_.tolls) Platform::add(&toll(l_.regions[i.peer])->arrived);
    }
    return !Platform::any(failed);
  }

  bool receive(int at, int run) {
    bool failed = false;
    for (int k = Platform::thread(); k < run; k += Platform::threads()) {
      const Instruction& i = p_.instructions[at + k];
      Counters& c = counters_[i.peer];
      Descriptor* d = arrival(l_.regions[l_.rank], i.peer, c.taken);
      uint64_t mark = 0;
      failed |= !until(at + k, i.peer, [&] {
        mark = Platform::acquire(&d->mark);
        return static_cast<uint32_t>(mark) == c.taken + 1;
      });
      if (failed) continue;
      if (static_cast<uint32_t>(mark >> 32) != p_.print) {
        failed = !fail(mismatch, at + k, i.peer, static_cast<uint32_t>(mark >> 32));
        continue;
      }
      c.taken++;
      shared_.home(i.peer) = static_cast<int64_t>(Platform::read(&d->home));
      if (i.tiny) {
        shared_.tiny_message(i.reg) = Platform::read(&d->place);
        shared_.packed(i.reg) = in_descriptor;
      } else if (i.reg >= 0) {
        auto place = Platform::read(&d->place);
        if (place == there) {
          shared_.packed(i.reg) = has_landed;
          continue;
        }
        shared_.message(i.reg) =
            reinterpret_cast<int64_t>(l_.regions[static_cast<int64_t>(place >> region_shift) * l_.ranks + i.peer] +
                                      (place & ((uint64_t{1} << region_shift) - 1)));
        shared_.packed(i.reg) = (place >> region_shift) == 0;
      }
    }
    return !Platform::any(failed);
  }

  void give_back(int at, int run) {
    Platform::barrier();  // the messages' bytes are read
    for (int k = Platform::thread(); k < run; k += Platform::threads()) {
      const Instruction& i = p_.instructions[at + k];
      Counters& c = counters_[i.peer];
      Platform::release(&credit(l_.regions[i.peer], l_.rank)->given, ++c.given);
      if (l_.tolls) Platform::add(&toll(l_.regions[i.peer])->returned);
    }
    Platform::barrier();
  }

  // ---- slots

  bool free_slot(int number) const {
    auto until = l_.slot_until + (static_cast<int64_t>(block_) * l_.slots + number) * l_.ranks;
    for (int peer = 0; peer < l_.ranks; peer++)
      if (peer != l_.rank && static_cast<int32_t>(returned(peer) - until[peer]) < 0) return false;
    return true;
  }

  // Takes a slot that no peer reads any more, the next in turn if that is free.
  bool take_slot(int at, int reg) {
    bool failed = false;
    if (Platform::thread() == 0) {
      int& last = l_.last_slot[block_];
      int found = -1;
      failed = !until(at, -1, [&] {
        for (int k = 1; k <= l_.slots && found < 0; k++)
          if (int number = (last + k) % l_.slots; free_slot(number)) found = number;
        return found >= 0;
      });
      if (!failed) {
        last = found;
        shared_.held(reg) = found;
        shared_.slot(reg) = l_.staging + found * l_.slot_bytes + block_ * (l_.slot_bytes / call_.blocks / 16 * 16);
      }
    }
    return !Platform::any(failed);
  }

  // Waits until peers have read what this instruction overwrites.
  bool settle(int at, const Instruction& i) {
    int which = call_.same ? 1 : 0;
    bool failed = false;
    for (int k = Platform::thread(); k < i.settles[which]; k += Platform::threads()) {
      const Settle& s = p_.settles[i.settle[which] + k];
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
      uint32_t number = counters_[peer].pending;
      if (peer != l_.rank && number)
        failed |= !until(at, peer, [&] { return static_cast<int32_t>(returned(peer) - number) >= 0; });
    }
    return !Platform::any(failed);
  }

  // ---- bytes

  bool move(int at, const Instruction& i, int64_t window) {
    const Operand* o = p_.operands + i.operand;
    if (i.kind == copy && o[i.targets].space == message && shared_.packed(o[i.targets].index) == has_landed)
      return true;
    bool lies = false;
    int landing = 0;
    if (i.tiny) {
      Platform::barrier();
      if (Platform::thread() == 0) shared_.held(i.reg) = tiny_slot;
      Platform::barrier();
    } else if (i.reg >= 0 && all_land(i)) {
      lies = true;
      landing = i.lands;
      Platform::barrier();
      if (Platform::thread() == 0) shared_.held(i.reg) = has_landed;
      Platform::barrier();
    } else if (i.reg >= 0) {
      int64_t place = place_of(i, window);
      lies = place != nowhere;
      if (lies) {
        Platform::barrier();
        if (Platform::thread() == 0) {
          shared_.held(i.reg) = in_arrays;
          shared_.slot(i.reg) = place;
        }
      } else if (!take_slot(at, i.reg)) {
        return false;
      }
      Platform::barrier();
    }
    if (i.settles[call_.same ? 1 : 0] && !settle(at, i)) return false;
    int own = lies ? i.targets - 1 : i.targets, targets = own + landing;  // a slot is the last target
    if (targets == 0) return true;
    for (int piece = 0; piece < o->count; piece++) {
      int64_t begin, end;
      share(p_.sizes[o->label + piece], window, begin, end);
      if (begin == end) continue;
      if (piece) Platform::barrier();
      for (int k = Platform::thread(); k < targets + i.sources; k += Platform::threads())
        shared_.at(k) = k < own       ? address(o[k], piece, window, begin)
                        : k < targets ? landing_at(p_.lands[i.land + k - own], *o, piece, window, begin)
                                      : address(o[i.targets + k - targets], piece, window, begin);
      Platform::barrier();
      if (i.kind == copy)
        Platform::copy(shared_, targets, targets, (end - begin) * p_.item);
      else
        Platform::reduce(call_, shared_, targets, targets, i.sources, end - begin);
    }
    return true;
  }

  // The end of an average, of this rank's results of the window.
  bool finish(int64_t window) {
    Platform::barrier();
    if (!settle_all(p_.length)) return false;
    for (int k = 0; k < p_.runs; k++) {
      int64_t begin, end;
      share(p_.outputs[k].size, window, begin, end);
      if (begin < end)
        Platform::finish(call_, call_.output + (p_.outputs[k].offset + window * p_.window + begin) * p_.item,
                         end - begin, l_.ranks);
    }
    Platform::barrier();
    return true;
  }

  // ---- a program in several launches

  void load_registers() {
    auto kept = l_.registers + static_cast<int64_t>(block_) * Registers::words;
    for (int k = Platform::thread(); k < Registers::words; k += Platform::threads()) shared_.set(k, kept[k]);
    Platform::barrier();
  }
  void save_registers() {
    Platform::barrier();
    auto kept = l_.registers + static_cast<int64_t>(block_) * Registers::words;
    for (int k = Platform::thread(); k < Registers::words; k += Platform::threads()) kept[k] = shared_.get(k);
  }

  Counters* counters_;
};

}  // namespace ringtree::device
