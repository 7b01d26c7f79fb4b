// The wire for machines that have nothing but TCP. Each rank listens; a rank that has something to send connects. A
// pair has one connection for short frames, which carries those of both: what one side sends brings along what the
// kernel has to acknowledge of the other's, and so saves packets. If both connect at once, the lower rank's connection
// stays. Long payloads have connections of their own, in each direction, several if need be (tcp_streams.cc).
#pragma once

#include <netinet/in.h>

#include <memory>
#include <string>
#include <vector>

#include "file_descriptor.h"
#include "wires/tcp_connection.h"
#include "wires/wire.h"

namespace ringtree {

class TcpWire final : public Wire {
 public:
  struct Peer {
    std::string host;  // a numeric address; empty: of this host, by whom no connection is made and from whom none taken
    std::uint16_t port = 0;
    Proof to_it{}, from_it{};                // of who connects
    Proof answer_to_it{}, answer_from_it{};  // of who takes the connection
  };
  struct Options {
    FileDescriptor listener{-1};  // a listening socket
    std::uint64_t group = 0;
    std::vector<Peer> peers;
    std::uint32_t connections = 1;  // by which long payloads to a peer go
    bool measures = false;          // whether that is the most, and how many are taken is measured
  };

  TcpWire(int rank, Options options, Sink& sink);

  void send(int peer, const Frame& frame, const std::byte* payload) override;
  void send(int peer, const Frame& frame, std::string payload) override;
  void keep_payloads() override;
  bool can_keep_payloads() const override { return true; }
  void connect(int peer) override;
  bool progress() override;
  void tick() override;
  int descriptor() const override { return events_.fd(); }
  bool connected(int peer) const override { return links_[peer].any(); }
  bool busy() const override;
  bool finished() const override;
  void leave() override;
  void depart() override;

 private:
  using Connection = tcp::Connection;
  using Link = tcp::Link;
  using Sending = tcp::Sending;

  Connection* dial(int peer, std::uint32_t stream);
  bool listen(int change);
  void accept_all();
  void make_room(std::size_t most);
  bool greet(Connection& c);
  bool answered(Connection& c);
  bool hello(Connection& c);
  void adopt(Connection& c);

  void push(int peer, Sending sending);
  void enqueue(Connection& c, Sending sending);
  void send_part(int peer, Connection* way, tcp::Part part, const std::byte* payload);
  std::size_t sent_at_once(Connection& c, const Sending& sending);
  void write(Connection& c);
  void completed(int peer, const Sending& sending);

  bool read(Connection& c);
  bool consume(Connection& c, const std::byte* from, std::size_t nbytes);
  bool begin_payload(Connection& c);
  bool end_frame(Connection& c, const std::byte* from, std::size_t nbytes);

  std::uint32_t width_for(int peer, std::size_t nbytes);
  void measure(int peer);
  bool open_streams(int peer, std::uint32_t wanted);
  bool early(Connection& c);
  bool hold(Connection& c, const std::byte* from, std::size_t nbytes);
  void wait_for_turn(Connection& c, const std::byte* from, std::size_t nbytes);
  bool deliver(Connection& c);
  void release_held(Link& link);
  void catch_up(std::int64_t now);
  std::int64_t silent_since(const Connection& c, std::int64_t now) const;

  bool progress_by_reading();
  bool progress_by_events();
  void watch(Connection& c);
  void pause(Connection& c, bool paused);
  void discard(Connection& c);
  void closed(Connection& c, const std::string& why);
  void fail(Connection& c, const std::string& why);
  void lose(int peer, const std::string& why);
  void announce_to_all(Frame::Kind kind);
  void bury();

  int rank_;
  Options options_;
  Sink& sink_;
  FileDescriptor events_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Link> links_;  // by peer
  bool leaving_ = false, any_dead_ = false, full_ = false;
  unsigned turns_ = 0;
};

}  // namespace ringtree
