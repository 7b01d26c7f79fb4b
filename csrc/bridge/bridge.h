// Joins the lanes of this rank to those of its peers on other hosts (NCCL calls this a proxy).
//
// A lane between hosts is two local lanes and a wire. On the sender's host the bridge is the receiver of the local
// lane: it sends each message over the wire, and releases it only when the receiving rank has. On the receiver's host
// the bridge is the sender: it publishes the message in the local lane there, with its payload in the lane's own
// staging, and counts what the rank releases back over the wire as credits. So a message occupies its slot until the
// receiver has released it, as within a host, and what is proved about slots holds unchanged.
//
// The rank that calls moves its own frames in its waits; a thread does so while the program computes.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "file_descriptor.h"
#include "memory/mapping.h"
#include "waits/background.h"
#include "waits/wait.h"
#include "wires/wire.h"

namespace ringtree {

struct AccessHead;
struct CallHead;

// The ranks of a group by host, and how to reach those of other hosts.
struct Network {
  std::vector<int> hosts;  // of each rank: a number
  std::function<std::unique_ptr<Wire>(int rank, Wire::Sink& sink)> wire;
};

class Bridge final : public Relay, private Background, private Wire::Sink, private Health::Observer {
 public:
  Bridge(Endpoint& endpoint, const Network& network);
  ~Bridge() override;

  bool serves(int peer) const noexcept override { return peers_[peer] != nullptr; }
  void flush(int peer) noexcept override;
  bool advance() noexcept override;
  void rest() noexcept override { visited_ns_.store(0, std::memory_order_relaxed); }
  void settle() noexcept override;
  bool sends_from_anywhere() const noexcept override { return sends_from_anywhere_; }
  void keep_payloads() noexcept override;
  void probe(int peer) noexcept override;
  void probe_next() noexcept override;
  void announce(std::uint64_t call, const Fingerprint& print) noexcept override;
  void announce_to_all(std::uint64_t call, const Fingerprint& print) noexcept override;
  void announce_for_host(std::uint64_t call) noexcept override;
  std::byte* staging(int peer) override;
  void signal(int peer, int index) override;
  std::uint64_t arrival(int peer, std::uint64_t number) const noexcept override;

  // Memory that this rank sends from without a copy; regions are numbered as the interpreter's.
  void add_region(const std::byte* base);

  // This rank's share of a window, which peers of other hosts write and read; windows are numbered as the group's.
  void add_window(std::byte* own, std::size_t nbytes);
  // Writes to, or reads, a peer's share. Error: if that times out, which leaves the group whole, or the group fails or
  // is closed meanwhile.
  void put(int peer, int window, std::size_t offset, std::span<const std::byte> source, Hooks& hooks);
  void get(int peer, int window, std::size_t offset, std::span<std::byte> target, Hooks& hooks);

  // Returns when nobody puts or gets any more, which is soon once the endpoint is stopping, and the peers have answered
  // its farewell, or take too long.
  void close();

 private:
  struct Peer {
    Peer(Segment& segment, int rank, int peer);

    Incoming<Descriptor> lane_sent;  // what this rank sends: the bridge receives it
    Incoming<Piece> pipe_sent;
    Outgoing<Descriptor> lane_arrived;  // what the peer sends: the bridge publishes it
    Outgoing<Piece> pipe_arrived;
    std::uint64_t lane_credited = 0, pipe_credited = 0;  // messages of the peer's that were given back to it
    std::uint64_t lane_staged = 0, pipe_staged = 0;      // the last message with a payload in staging
    std::vector<std::uint64_t> arrivals;                 // of its last messages, in ticks, by number modulo the depth
    std::uint64_t announced = 0;                         // the last call of this rank's that the peer knows of
    std::uint64_t asked = 0, answered = 0;               // the last call announced for its host, and to it for this one
    bool owes = false;                                   // whether it is in owing_
    std::array<char, sizeof(Poison::text)> text{};       // of a failure that arrives
    std::vector<std::byte> waits;                        // those that arrive: as long as the longest frame of them
    std::int64_t asked_for_waits_ns = 0;                 // when it last was
    std::uint64_t missing = 0;                           // bytes of the message whose pieces arrive
    std::map<std::uint64_t, std::unique_ptr<std::byte[]>> puts;  // that the wire still sends, by number
    std::atomic<std::size_t> put_bytes = 0, get_bytes = 0;       // under way, of all threads together
  };
  struct Access;
  struct Window {
    std::byte* own;
    std::size_t nbytes;
  };
  // Bytes of a peer's window. Nobody takes their memory away, also where the caller gives up.
  struct Fetched {
    Fetched(int from, std::size_t nbytes) : from(from), nbytes(nbytes), bytes(new std::byte[nbytes]) {}
    int from;
    std::size_t nbytes;
    std::unique_ptr<std::byte[]> bytes;
    std::atomic<bool> complete = false;
  };

  std::byte* place(int peer, const Frame& frame, std::shared_ptr<void>& keeps) override;
  bool arrived(int peer, const Frame& frame) override;
  void sent(int peer, const Frame& frame) override;
  void lost(int peer, const std::string& why) override;
  void failed(Failure kind, int rank, const std::string& text) noexcept override;

  void relay(int peer);
  void send_failure(int to, Failure kind, int rank, const std::string& text);
  void send_cause(int to, const FirstCause& cause);
  std::map<int, int> one_of_each_host(int but) const;
  void seek_hearers();
  void take_leave();
  void announce_to(int peer, std::uint64_t call, const Fingerprint& print);
  bool is_first_of_host(int rank) const;
  void answer();
  std::optional<Fingerprint> made_here(std::uint64_t call) const;
  void announce_of_all(int to, std::uint64_t call, const CallHead& head);
  void called(int from, const Frame& frame);
  void send_message(int to, const Descriptor& descriptor, std::uint64_t number);
  void send_message(int to, const Piece& piece, std::uint64_t number);
  bool publish(int from, const Frame& frame, Peer& peer);
  bool publish_piece(int from, const Frame& frame, Peer& peer);
  bool take_failure(const Frame& frame, const Peer& peer);
  void ask_for_waits(int peer);
  void send_waits(int to);
  bool take_waits(const Frame& frame, const Peer& peer);
  void end_accesses();
  void check_open() const;
  std::byte* in_own_window(const Frame& frame);
  Frame access_frame(int to, Frame::Kind kind, std::uint64_t number, const AccessHead& head);
  std::shared_ptr<Fetched> ask(int from, int window, std::size_t offset, std::size_t nbytes);
  bool answer(int to, const Frame& asked);
  std::shared_ptr<Fetched> wanted(int from, const Frame& frame);
  bool fetched(int from, const Frame& frame);
  bool signalled(int from, const Frame& frame);
  void take_credits(Peer& peer, const Frame& frame);
  Frame frame_to(int peer, Frame::Kind kind);
  void give_credits(int peer, bool all);
  bool pay();
  bool move();
  bool move_locked();
  void map_staging();
  void detach() noexcept;
  std::byte* staged(int peer, std::uint64_t number);
  void guard(const std::function<void()>& action) noexcept;
  bool arm();
  void call_thread();
  void sleep_until_called(std::int64_t ns);
  void loop();

  Endpoint& endpoint_;
  Segment& segment_;
  int rank_;
  std::vector<int> hosts_;
  std::recursive_mutex mutex_;                // guards all below; a failure within is announced from within
  std::vector<std::unique_ptr<Peer>> peers_;  // nullptr: of this host
  std::byte* staging_ = nullptr;
  std::size_t staging_bytes_ = 0;
  std::vector<std::size_t> staging_at_;
  std::vector<const std::byte*> regions_;
  std::vector<Window> windows_;
  std::map<std::uint64_t, std::shared_ptr<Fetched>> fetched_;  // what was asked for, by number
  std::uint64_t accesses_ = 0;
  bool takes_no_access_ = false;
  std::atomic<int> in_access_ = 0;  // threads
  std::vector<int> owing_;
  std::int64_t owing_since_ns_ = 0;
  bool may_owe_ = false;  // whether credits of a few slots may wait for a frame that goes anyway
  std::unique_ptr<Wire> wire_;
  bool sends_from_anywhere_ = false;
  int probed_ = -1, probed_last_ = 0;
  bool unanswered_ = false;                   // whether another host asks for a call that not all here have begun
  bool arrived_ = false;                      // whether something was published since the last look
  std::atomic<std::int64_t> visited_ns_ = 0;  // when a caller last moved frames
  std::atomic<bool> stopping_ = false;
  FileDescriptor called_;  // an event descriptor that wakes the thread
  std::thread thread_;
};

}  // namespace ringtree
