// The TCP wire by itself: ranks of one process on the loopback. What it does without descriptors, and after a pause.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "loopback.h"
#include "no_descriptors.h"
#include "wires/tcp.h"

namespace {

using ringtree::Frame;
using ringtree::Proof;
using ringtree::TcpWire;

constexpr int ranks = 3;
constexpr std::size_t long_payload = 8192;  // takes a connection of its own
constexpr std::int64_t patience_ns = 5'000'000'000, pause_ns = 3'100'000'000, heard_of_ns = 2'800'000'000;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "tcp_wire: %s\n", what);
  std::abort();
}

// A keyed digest, as it were.
Proof proof(int number) {
  Proof proof{};
  proof[0] = static_cast<std::byte>(number);
  return proof;
}

// What arrives at a rank.
struct Arrivals : ringtree::Wire::Sink {
  std::byte* place(int, const Frame&, std::shared_ptr<void>&) override { return memory.data(); }
  bool arrived(int, const Frame& frame) override { return frames.push_back(frame), true; }
  void sent(int, const Frame&) override {}
  void lost(int, const std::string& why) override { losses.push_back(why); }

  std::vector<std::byte> memory = std::vector<std::byte>(long_payload);
  std::vector<Frame> frames;
  std::vector<std::string> losses;
};

struct Listener {
  std::uint16_t port = 0;
  int fd = loopback::listening(port);

  bool is_there() const {
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto at = loopback::address(port);
    bool connected = connect(client, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    ::close(client);
    return connected;
  }
};

struct Ranks {
  Listener listeners[ranks];
  Arrivals arrivals[ranks];
  std::unique_ptr<TcpWire> wires[ranks];

  Ranks() {
    for (int rank = 0; rank < ranks; rank++) {
      TcpWire::Options options{ringtree::FileDescriptor(listeners[rank].fd), 1, {}, 1, false};
      for (int peer = 0; peer < ranks; peer++)
        options.peers.push_back({"127.0.0.1", listeners[peer].port, proof(of(rank, peer)), proof(of(peer, rank)),
                                 proof(100 + of(rank, peer)), proof(100 + of(peer, rank))});
      wires[rank] = std::make_unique<TcpWire>(rank, std::move(options), arrivals[rank]);
    }
  }
  static int of(int from, int to) { return 1 + from * ranks + to; }
  void send(int from, int to, std::size_t nbytes) {
    static const std::vector<std::byte> payload(long_payload);
    Frame frame{};
    frame.kind = nbytes ? Frame::Kind::put : Frame::Kind::signal;
    frame.nbytes = static_cast<std::uint32_t>(nbytes);
    wires[from]->send(to, frame, nbytes ? payload.data() : nullptr);
  }
  // Whether so many frames come to a rank.
  bool come(int to, std::size_t frames) {
    for (auto until_ns = ringtree::now_ns() + patience_ns; ringtree::now_ns() < until_ns; sched_yield()) {
      for (auto& wire : wires) wire->progress();
      if (arrivals[to].frames.size() >= frames) return true;
    }
    return false;
  }
};

// UndefinedBehaviorSanitizer looks once, by descriptors of its own, at what these types are.
void show_types() {
  Ranks ranks;
  try {
    throw std::system_error(EMFILE, std::generic_category(), "a type");
  } catch (const std::system_error& error) {
    expect(error.code().value() == EMFILE && *error.what(), "an error has a text");
  }
}

void goes_on_by_the_connections_that_there_are() {
  Ranks ranks;
  ranks.send(0, 1, 0);
  expect(ranks.come(1, 1), "a short frame comes");
  NoDescriptors none;
  for (std::size_t frames = 2; frames < 4; frames++) {
    ranks.send(0, 1, long_payload);
    expect(ranks.come(1, frames), "a long frame comes by the pair's connection where there can be no other");
  }
  try {
    ranks.send(0, 2, 0);
    expect(false, "a first connection needs a descriptor");
  } catch (const std::system_error& error) {
    expect(std::string(error.what()).find("RLIMIT_NOFILE is") != std::string::npos, "the error names the limit");
  }
}

void closes_what_it_was_given() {
  Listener listener;
  Arrivals arrivals;
  {
    NoDescriptors none;
    try {
      TcpWire wire(0, {ringtree::FileDescriptor(listener.fd), 1, {{"127.0.0.1", 1, {}, {}}}, 1, false}, arrivals);
      expect(false, "a wire needs a descriptor");
    } catch (const std::system_error&) {
    }
  }
  expect(!listener.is_there(), "who connects to a rank that could not begin is refused");
}

// Who listens where a peer should, and gives the proof of this rank back to it, gets nothing else.
void nothing_goes_to_who_cannot_prove() {
  Listener stranger;
  Arrivals arrivals;
  TcpWire::Options options{
      ringtree::FileDescriptor(-1), 1, {{}, {"127.0.0.1", stranger.port, proof(1), proof(2), proof(3), proof(4)}}, 1};
  TcpWire wire(0, std::move(options), arrivals);
  Frame frame{};
  frame.kind = Frame::Kind::signal;
  wire.send(1, frame, nullptr);
  int taken = -1;
  while ((taken = accept(stranger.fd, nullptr, nullptr)) < 0) sched_yield();
  struct {
    std::uint64_t magic = ringtree::tcp::magic;
    Proof back;
  } answer{.back = proof(1)};
  expect(::send(taken, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer, "the stranger answers");
  for (int turn = 0; turn < 1000 && arrivals.losses.empty(); turn++, usleep(1000)) wire.progress();
  std::byte came[1024];
  expect(recv(taken, came, sizeof came, MSG_DONTWAIT) == sizeof(ringtree::tcp::Hello), "but the hello nothing comes");
  expect(arrivals.losses.size() == 1 && arrivals.losses[0].find("proof") != std::string::npos, "the loss has a reason");
  ::close(taken);
  ::close(stranger.fd);
}

// A rank that was stopped for a while looks first at what its peers have sent meanwhile.
void a_pause_is_no_silence() {
  Ranks ranks;
  ranks.send(0, 1, 0);
  ranks.send(1, 0, 0);
  expect(ranks.come(1, 1) && ranks.come(0, 1), "both have heard of each other");
  auto begun_ns = ringtree::now_ns();
  for (std::int64_t since_ns = 0; since_ns < pause_ns; since_ns = ringtree::now_ns() - begun_ns) {
    usleep(50'000);
    if (since_ns < heard_of_ns) ranks.wires[1]->tick();
  }
  ranks.wires[0]->tick();
  expect(ranks.arrivals[0].losses.empty(), "a peer whose heartbeats lie there unread is not lost");
}

}  // namespace

int main() {
  show_types();
  goes_on_by_the_connections_that_there_are();
  closes_what_it_was_given();
  nothing_goes_to_who_cannot_prove();
  a_pause_is_no_silence();
  std::puts(
      "tcp_wire: goes on with the descriptors that it has, gives back what it was given, asks who listens, and reads "
      "before it judges");
}
