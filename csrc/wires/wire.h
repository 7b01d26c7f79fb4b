// A wire carries frames between ranks of different hosts: in order from one rank to another, and none is lost.
//
// An implementation is one file: it connects when the first frame for a peer is sent, proves who it is, and reports the
// peers that can no longer be reached. The bridge holds a lock around every call, and whatever the sink does is part of
// progress() or send().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ringtree {

struct Frame {
  enum class Kind : std::uint32_t {
    descriptor,
    piece,
    credit,
    call,
    left,
    farewell,
    gone,
    failure,
    heartbeat,
    put,
    get,
    got,
    signal,
    cause,
    ask_waits,
    waits
  };

  Kind kind;
  std::uint32_t nbytes;                    // of the payload that follows
  std::uint64_t number;                    // of the message in its lane or pipe; of a failure, its kind; a culprit's
  std::uint32_t lane_credit, pipe_credit;  // messages of the receiver's that were given back, modulo 2^32
  std::array<std::byte, 24> head;          // of a message: its entry without number and payload
};
static_assert(sizeof(Frame) == 48);

class Wire {
 public:
  struct Sink {
    virtual ~Sink() = default;
    // The memory for an arriving frame's payload; nullptr: the frame breaks the rules, and its peer is lost. Called in
    // the frame's turn, that is after arrived() for those before it; for 4 KiB or more it may be earlier. Never for a
    // frame without a payload, always before arrived() for others. The memory stays where it is as long as the sink
    // lasts, or `keeps` keeps it, which the wire holds until the payload is there: a peer may send a frame twice at
    // once.
    virtual std::byte* place(int peer, const Frame& frame, std::shared_ptr<void>& keeps) = 0;
    // All of the frame is there; false: it breaks the rules.
    virtual bool arrived(int peer, const Frame& frame) = 0;
    // The payload of a frame that was sent is no longer needed. In the order in which frames were sent to `peer`.
    virtual void sent(int peer, const Frame& frame) = 0;
    // Nothing more comes from `peer`. `why` as in "closed its connection".
    virtual void lost(int peer, const std::string& why) = 0;
  };

  virtual ~Wire() = default;

  // The payload must stay as it is until Sink::sent().
  virtual void send(int peer, const Frame& frame, const std::byte* payload) = 0;
  // The same with a payload that the wire keeps.
  virtual void send(int peer, const Frame& frame, std::string payload) = 0;
  // Payloads that are still to be sent may go away now. Where a wire cannot keep them, it is never given the memory of
  // a caller that may take it away.
  virtual void keep_payloads() = 0;
  virtual bool can_keep_payloads() const = 0;
  // Connects to `peer`, if it is not connected.
  virtual void connect(int peer) = 0;
  // Moves what can be moved now; never waits. Whether anything moved.
  virtual bool progress() = 0;
  // Sends heartbeats and looks for peers that are silent; called a few times a second.
  virtual void tick() = 0;
  // Readable when progress() has something to do.
  virtual int descriptor() const = 0;
  // Whether something that was to be sent still waits for the network.
  virtual bool busy() const = 0;
  // Called before each sleep on the descriptor. False: there is something to do, and the descriptor may not say so.
  virtual bool arm() { return true; }
  virtual bool connected(int peer) const = 0;
  // Announces to every connected peer that this rank leaves, behind all that was sent to it.
  virtual void leave() = 0;
  // Whether every peer to which leave() announced it has answered, and so has read all, or is lost.
  virtual bool finished() const = 0;
  // After that: announces to every connected peer that nothing of this rank's is under way to anybody.
  virtual void depart() = 0;
};

}  // namespace ringtree
