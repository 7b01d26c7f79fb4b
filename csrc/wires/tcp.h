// The wire for machines that have nothing but TCP. Each rank listens; a rank that has something to send connects, and
// what it sends goes by its own connection, so two ranks that send to each other have two. What only answers (credits,
// heartbeats) may go back by a peer's.
#pragma once

#include <netinet/in.h>

#include <memory>
#include <string>
#include <vector>

#include "wires/tcp_connection.h"
#include "wires/wire.h"

namespace ringtree {

class TcpWire final : public Wire {
 public:
  struct Peer {
    std::string host;  // a numeric address; empty: never connected to
    std::uint16_t port = 0;
    Proof to_it{}, from_it{};
  };
  struct Options {
    int listener = -1;  // a listening socket, which the wire closes
    std::uint64_t group = 0;
    std::vector<Peer> peers;
  };

  TcpWire(int rank, Options options, Sink& sink);
  ~TcpWire() override;

  void send(int peer, const Frame& frame, const std::byte* payload) override;
  void send(int peer, const Frame& frame, std::string payload) override;
  void connect(int peer) override;
  bool progress() override;
  void tick() override;
  int descriptor() const override { return events_; }
  bool connected(int peer) const override { return to_[peer] || from_[peer]; }
  bool finished() const override;
  void leave() override;
  void depart() override;

 private:
  using Connection = tcp::Connection;

  Connection* way_to(int peer, bool answers);
  void push(Connection& c, tcp::Sending sending);
  std::size_t sent_at_once(Connection& c, const Frame& frame, const std::byte* payload);
  void write(Connection& c);
  bool read(Connection& c);
  bool consume(Connection& c, const std::byte* from, std::size_t nbytes);
  bool begin_payload(Connection& c);
  bool end_frame(Connection& c);
  bool greet(Connection& c, const tcp::Hello& hello);
  bool progress_by_reading();
  bool progress_by_events();
  void accept_all();
  void watch(Connection& c, bool writes);
  void fail(Connection& c, const std::string& why);
  void announce_to_all(Frame::Kind kind);
  void bury();

  int rank_;
  Options options_;
  Sink& sink_;
  int events_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> to_, from_;  // by peer: made here, made there
  std::vector<bool> left_, lost_;       // by peer
  bool leaving_ = false, any_dead_ = false, full_ = false;
  unsigned turns_ = 0;
};

}  // namespace ringtree
