// The waits of a block's threads for other ranks, and how they end.
#pragma once

#include "device/program.h"

namespace ringtree::device {

template <class Platform>
class Waits {
 public:
  Waits(const Call& call, const Lanes& lanes, uint8_t* const* regions, Counters* counters, int block)
      : call_(call), l_(lanes), regions_(regions), counters_(counters), block_(block) {}

  // Waits in this thread; false where the call has failed. Waits hold no block: all others of the rank go on.
  template <class Ready>
  bool until(int at, int peer, Ready ready) const {
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

  bool fail(Outcome outcome, int at, int peer, uint32_t print) const {
    if (outcome != stopped) Platform::report(call_.status, Status{outcome, peer, at, block_, print, 0});
    *call_.stop = 1;
    return false;
  }

  // Waits until the lane to a peer, of so many messages, has room for the one of that number. Credits may be ahead of
  // messages: a block whose part of a message is empty needs nothing of it.
  bool has_room(int at, int peer, uint32_t number, int messages) const {
    Counters& c = counters_[peer];
    auto fits = [&] { return static_cast<int32_t>(number - c.credited) <= messages; };
    return fits() || until(at, peer, [&] {
             c.credited = returned(peer);
             return fits();
           });
  }

  // The descriptor of the message from a rank that has so many before it, at the receiver.
  Descriptor* arrival(int receiver, int sender, uint32_t before) const {
    auto lane = reinterpret_cast<Descriptor*>(regions_[receiver] + l_.arrivals) +
                (static_cast<int64_t>(sender) * l_.blocks + block_) * l_.slots;
    return lane + before % static_cast<uint32_t>(l_.slots);
  }
  Credit* credit(int sender, int receiver) const {
    return reinterpret_cast<Credit*>(regions_[sender] + l_.credits) + static_cast<int64_t>(receiver) * l_.blocks +
           block_;
  }
  uint32_t returned(int peer) const { return Platform::acquire(&credit(l_.rank, peer)->given); }

  Counters& counters(int peer) const { return counters_[peer]; }

 private:
  const Call& call_;
  const Lanes& l_;
  uint8_t* const* regions_;
  Counters* counters_;
  int block_;
};

}  // namespace ringtree::device
