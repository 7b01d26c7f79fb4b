// The interface of an endpoint to the server of its lanes to ranks of other hosts (bridge/bridge.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpreter/call.h"

namespace ringtree {

class Relay {
 public:
  virtual ~Relay() = default;

  virtual bool serves(int peer) const noexcept = 0;
  // Called after a release store to a lane or a pipe of `peer`, in either direction: sends what is due.
  virtual void flush(int peer) noexcept = 0;
  // Moves what can be moved now; never waits. Whether anything moved.
  virtual bool advance() noexcept = 0;
  // The caller is about to sleep: what arrives is somebody else's to move.
  virtual void rest() noexcept = 0;
  // At the end of a call: gives back what the peers need to go on.
  virtual void settle() noexcept = 0;
  // A wait for `peer` is slow: finds out whether it can still be reached.
  virtual void probe(int peer) noexcept = 0;
  // A wait for whoever comes is slow: the same, one each time, for peers that this rank has no connection to.
  virtual void probe_next() noexcept = 0;
  // Announces this rank's call to the peer that was probed last: its own call may be another.
  virtual void announce(std::uint64_t call, const Fingerprint& print) noexcept = 0;
  // The same to all peers of other hosts.
  virtual void announce_to_all(std::uint64_t call, const Fingerprint& print) noexcept = 0;
  // The same to other hosts, for all ranks of this one, when they have begun that call: before they leave.
  virtual void announce_for_host(std::uint64_t call) noexcept = 0;
  // Whether messages to other hosts may lie anywhere in the caller's memory.
  virtual bool sends_from_anywhere() const noexcept = 0;
  // A call ends before its bytes are sent: they may go away.
  virtual void keep_payloads() noexcept = 0;
  // Raises a signal at `peer`, behind what was put there before. Error: the group was closed meanwhile.
  virtual void signal(int peer, int index) = 0;
  // The memory of payloads from a peer that are too long for a descriptor, `slot_bytes` each.
  virtual std::byte* staging(int peer) = 0;
  // When a message of a peer's lane that is not given back yet arrived here, in ticks.
  virtual std::uint64_t arrival(int peer, std::uint64_t number) const noexcept = 0;
};

}  // namespace ringtree
