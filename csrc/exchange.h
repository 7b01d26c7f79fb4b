// Point to point: any number of sends and receives at once, none waiting for another.
#pragma once

#include <deque>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "wait.h"

namespace ringtree {

struct Operation {
  bool is_send;
  int peer;
  int tag;
  std::byte* data;
  std::size_t nbytes;
  int dtype;
  std::size_t moved = 0;
  bool started = false, complete = false;
};

class Exchange {
 public:
  explicit Exchange(Seat& seat);

  // Returns when all are complete. Several threads may be here at once: each moves everybody's messages on.
  void run(std::span<Operation> operations, double timeout_s, Hooks& hooks);

 private:
  // A message that came before anyone asked for it.
  struct Stored {
    int tag, dtype;
    std::size_t total, moved = 0;
    std::vector<std::byte> bytes;
    Operation* wanted_by = nullptr;  // complete once the rest has come
  };
  struct Peer {
    Peer(Sender<Sync, Piece> out, Receiver<Sync, Piece> in) : out(out), in(in) {}
    Sender<Sync, Piece> out;
    Receiver<Sync, Piece> in;
    std::deque<Operation*> sends;
    std::list<Operation*> receives;
    std::list<Stored> stored;
    Operation* into = nullptr;  // where the message that is arriving goes,
    Stored* store = nullptr;    // one of the two
  };
  class Batch;

  void post(Operation& operation);
  bool progress();
  bool send_some(int peer);
  bool receive_some(int peer);
  void begin(int peer, const Piece& piece);
  void send_to_self(Operation& send);
  void check(int peer, int tag, std::size_t nbytes, int dtype, const Operation& receive);
  static void finish(Stored& stored);
  bool withdraw(std::span<Operation> operations);

  Seat& seat_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
};

}  // namespace ringtree
