// The wire for machines whose network UCX serves: one active message a frame, by rendezvous where UCX finds that
// faster.
//
// UCX says neither who sent a message nor that messages come in order, small and large ones together. So every message
// presents its sender's proof, and numbers restore the order. What comes by rendezvous is fetched into its place at
// once, ahead of its turn; nothing else is looked at before its turn.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wires/proof.h"
#include "wires/ucx_library.h"
#include "wires/wire.h"

namespace ringtree {

class UcxWire final : public Wire {
 public:
  struct Peer {
    std::string address;  // its worker's; empty: never connected to
    Proof to_it{}, from_it{};
  };
  struct Options {
    std::shared_ptr<ucx::Worker> worker;
    std::vector<Peer> peers;
  };

  UcxWire(int rank, Options options, Sink& sink);
  ~UcxWire() override;

  void send(int peer, const Frame& frame, const std::byte* payload) override;
  void send(int peer, const Frame& frame, std::string payload) override;
  void keep_payloads() override {}
  bool can_keep_payloads() const override { return false; }  // UCX reads them as its peers fetch them
  void connect(int peer) override;
  bool progress() override;
  void tick() override;
  int descriptor() const override { return worker_->descriptor(); }
  bool busy() const override;
  bool arm() override;
  bool connected(int peer) const override { return links_[peer].endpoint; }
  bool finished() const override;
  void leave() override;
  void depart() override;

 private:
  // What every message begins with.
  struct Head {
    std::uint64_t number;  // of the messages from this sender to this receiver: 1, 2, …
    std::int32_t from;
    std::uint32_t unused;
    Proof proof;
    Frame frame;
  };
  static_assert(sizeof(Head) == 96);

  struct Sending {
    UcxWire* wire;
    int peer;
    Head head;
    const std::byte* payload;
    std::string own;  // the payload, where the wire keeps it
    bool done, complete;
  };

  // A message that waits for its turn, or for its payload.
  struct Held {
    enum class State { here, offered, fetching, complete };

    UcxWire* wire;
    int peer;
    Frame frame;
    State state;
    void* data;                     // UCX's: the payload, or what it is fetched by
    std::string copy;               // the payload, where UCX does not let it be kept
    std::shared_ptr<void> keeps{};  // where it goes, as in Wire::Sink
  };

  // What this rank knows of a peer.
  struct Link {
    UcxWire* wire = nullptr;
    ucx::Endpoint* endpoint = nullptr;
    bool heard = false, left = false, lost = false, awaits_farewell = false;
    ucx::Status broken = ucx::ok;
    std::uint64_t sent = 0, next = 1;  // numbers: of the last message that went out, of the one whose turn it is
    std::int64_t sent_ns = 0, heard_ns = 0;
    std::size_t held_bytes = 0;
    std::deque<std::unique_ptr<Sending>> under_way;  // in order, as Sink::sent() is called
    std::map<std::uint64_t, std::unique_ptr<Held>> held;
  };

  struct Deferred {
    int peer;
    Frame frame;
    const std::byte* payload;
    std::string own;
  };

  static ucx::Status arrived(void* wire, const void* head, std::size_t head_bytes, void* data, std::size_t nbytes,
                             const ucx::Arrival* arrival);
  static void sent(void* request, ucx::Status status, void* sending);
  static void fetched(void* request, ucx::Status status, std::size_t nbytes, void* held);
  static void broken(void* link, ucx::Endpoint* endpoint, ucx::Status status);
  static void closed(void* request, ucx::Status status, void* wire);

  void open(int peer);
  void post(int peer, const Frame& frame, const std::byte* payload, std::string own);
  void push(int peer, Frame::Kind kind);
  void finish(Sending* sending, bool complete);
  ucx::Status take(const Head& head, void* data, std::size_t nbytes, const ucx::Arrival& arrival);
  bool deliver(int peer, const Frame& frame, const void* data);
  bool end_frame(int peer, const Frame& frame);
  void fetch(Held& held);
  void go_on(int peer);
  void release(Held& held);
  void lose(int peer, const std::string& why);
  void close(Link& link, bool force);
  void fail(Link& link, ucx::Status status);
  void settle();
  void report(int peer);
  void announce_to_all(Frame::Kind kind);

  int rank_;
  std::shared_ptr<ucx::Worker> worker_;
  const ucx::Library& ucx_;
  std::vector<Peer> peers_;
  Sink& sink_;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Sending>> spare_;
  std::deque<Deferred> deferred_;  // what was to be sent while UCX called
  std::vector<std::pair<int, std::string>> faults_;
  std::vector<int> due_;  // peers that have something held to go on with
  std::size_t closing_ = 0;
  std::exception_ptr thrown_;  // by the sink, in UCX's calls
  bool inside_ = false, any_broken_ = false, leaving_ = false, ending_ = false;
};

}  // namespace ringtree
