// Connections that bring any bytes: strangers, and ranks of another host that have proved who they are and then send
// what they like, by several connections at once. The sockets are unix sockets, of which a machine never runs out.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <list>

#include "fuzz/input.h"
#include "fuzz/rank.h"
#include "wires/tcp.h"

namespace {

using fuzz::Input, fuzz::Seed;
using ringtree::tcp::Hello, ringtree::tcp::Part;

constexpr std::uint64_t group = 7;

struct Address {
  sockaddr_un at{};
  socklen_t nbytes = 0;
};

int listening(Address& address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  address.at.sun_family = AF_UNIX;
  address.nbytes = sizeof(sa_family_t);  // the kernel chooses a name
  if (bind(fd, reinterpret_cast<sockaddr*>(&address.at), address.nbytes) != 0 || listen(fd, 16) != 0) std::abort();
  address.nbytes = sizeof address.at;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address.at), &address.nbytes);
  return fd;
}

// The other side of this rank's connections.
class Clients {
 public:
  enum Act { greets, connects, sends_part, sends_bytes, closes, ranks_turn, acts };
  enum Flag { cut = 1, any_turn = 2, short_payload = 4, second_half = 8 };

  Clients(const Address& address, Input& input) : address_(address), input_(input) { fds_.fill(-1); }
  ~Clients() {
    for (int fd : fds_)
      if (fd >= 0) close(fd);
  }

  void act(Act act) {
    auto which = input_.byte() % fds_.size();
    int& fd = fds_[which];
    switch (act) {
      case greets:
        open(fd);
        peers_[which] = 1 + input_.byte() % 3;  // the last is no rank of another host
        send(fd,
             Hello{
                 ringtree::tcp::magic, group, peers_[which], 0, static_cast<std::uint32_t>(input_.byte() % 20), 0, {}});
        break;
      case connects:
        open(fd);
        break;
      case sends_part:
        part(fd, peers_[which]);
        break;
      case sends_bytes: {
        auto bytes = input_.bytes(input_.byte());
        write(fd, bytes.data(), bytes.size());
        break;
      }
      case closes:
        if (fd >= 0) close(fd);
        fd = -1;
        break;
      default:
        break;
    }
  }

 private:
  void open(int& fd) {
    if (fd >= 0) close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address_.at), address_.nbytes) != 0) std::abort();
  }
  void write(int fd, const void* bytes, std::size_t nbytes) {
    if (nbytes) (void)!::send(fd, bytes, nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  template <class T>
  void send(int fd, const T& value) {
    write(fd, &value, sizeof value);
  }

  // A frame, or half of one, and as much of its payload as the input says.
  void part(int fd, int peer) {
    auto flags = input_.byte();
    Part part;
    part.frame = frames_.take(peer, input_);
    part.nbytes = part.frame.nbytes;
    if (flags & cut) {
      auto half = part.frame.nbytes / 2;
      part.offset = flags & second_half ? half : 0;
      part.nbytes = flags & second_half ? part.frame.nbytes - half : half;
    }
    if (ringtree::tcp::in_order(part.frame.kind)) part.turn = turns_[peer]++;
    if (flags & any_turn) part.turn = input_.byte();
    if (flags & any_turn && input_.byte() % 4 == 0)
      part.nbytes = input_.take<std::uint16_t>(), part.offset = input_.byte();
    send(fd, part);
    std::vector<char> payload(std::min<std::size_t>(part.nbytes, flags & short_payload ? input_.byte() * 37 : 70'000),
                              'x');
    write(fd, payload.data(), payload.size());
  }

  const Address& address_;
  Input& input_;
  std::array<int, 5> fds_;
  std::array<int, 5> peers_{};
  std::array<std::uint32_t, fuzz::ranks> turns_{};
  fuzz::Frames frames_;
};

struct Sent {
  ringtree::Frame::Kind kind;
  int flags;
  std::uint16_t nbytes;
  int number, call, length;
};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  using Kind = ringtree::Frame::Kind;
  using C = Clients;
  std::vector<std::string> seeds;
  auto greet = [](Seed& seed, int which, int stream) { seed.small(C::greets, which, 0, stream); };
  auto part = [](Seed& seed, int which, int flags, Sent sent) {
    seed.small(C::sends_part, which, flags, sent.kind, sent.flags)
        .put(sent.nbytes)
        .small(sent.number, 0, sent.call, sent.length);
  };
  Seed descriptor, pieces, streams, get, strange, failure;
  greet(descriptor, 0, 0);
  part(descriptor, 0, 0, {Kind::descriptor, Frames::inlined, 224, 0, 1, 4});
  descriptor.small(C::ranks_turn, 0, receives, 0, 4);
  greet(pieces, 1, 0);
  part(pieces, 1, 0, {Kind::piece, Frames::begins, 60000, 0, 0, 8});
  part(pieces, 1, 0, {Kind::piece, 0, 10000, 0, 0, 8});
  pieces.small(C::ranks_turn, 0, posts, 0, 8, 129, C::ranks_turn, 0, tests, 0, 0);
  greet(streams, 0, 0);
  greet(streams, 1, 1);
  greet(streams, 2, 2);
  part(streams, 1, C::cut, {Kind::descriptor, 0, 8192, 0, 1, 7});
  part(streams, 2, C::cut | C::second_half, {Kind::descriptor, 0, 8192, 0, 1, 7});
  streams.small(C::ranks_turn, 0, receives, 0, 7);
  greet(get, 0, 0);
  part(get, 0, 0, {Kind::get, 0, 0, 9, 1, 0});
  part(get, 0, 0, {Kind::got, 0, 8192, 1, 0, 0});
  get.small(C::ranks_turn, 0, gets, 0, 7);
  strange.small(C::connects, 0, C::sends_bytes, 0, 3).put("abc").small(C::closes, 0);
  greet(failure, 0, 0);
  part(failure, 0, 0, {Kind::failure, 0, 40, 2, 0, 0});
  failure.small(C::ranks_turn, 0, receives, 0, 4);
  // Faults that were found: a frame with a payload whose part has none; the reasons of two failures, and the answer to
  // a question, twice at once; the waits of ranks, twice at once and not as many; one who calls itself a rank of this
  // host, of which no proof is known.
  Seed empty, failures, answers, waits, neighbour;
  greet(empty, 0, 0);
  empty.small(C::sends_part, 0, C::any_turn, Kind::descriptor, Frames::inlined).put(std::uint16_t{8192});
  empty.small(0, 0, 1, 7, 0, 0).put(std::uint16_t{0}).small(0, C::ranks_turn, 0, receives, 0, 7);
  for (int which = 0; which < 2; which++) greet(failures, which, which);
  part(failures, 0, C::short_payload, {Kind::failure, 0, 1900, 2, 0, 0});
  failures.small(1);
  part(failures, 1, 0, {Kind::failure, 0, 2024, 2, 0, 0});
  failures.small(C::sends_bytes, 0, 200).bytes.append(200, 'y');
  for (int which = 0; which < 2; which++) greet(answers, which, which);
  answers.small(C::ranks_turn, 0, gets, 0, 7);
  part(answers, 0, C::short_payload, {Kind::got, 0, 8192, 1, 0, 0});
  answers.small(1);
  part(answers, 1, C::any_turn, {Kind::got, 0, 8192, 1, 0, 0});
  answers.small(0, 1, C::sends_bytes, 0, 200).bytes.append(200, 'y');
  for (int which = 0; which < 2; which++) greet(waits, which, which);
  part(waits, 0, C::short_payload, {Kind::waits, 0, sizeof(ringtree::WaitHead), 0, 0, 0});
  waits.small(1);
  part(waits, 1, C::any_turn | C::short_payload,
       {Kind::waits, 0, ringtree::most_waits * sizeof(ringtree::WaitHead), 0, 0, 0});
  waits.small(0, 1, 1, C::sends_bytes, 0, 203).bytes.append(203, '\0');
  neighbour.small(C::greets, 0, 2, 0);
  part(neighbour, 0, 0, {Kind::signal, 0, 0, 0, 0, 0});
  neighbour.small(C::ranks_turn, 0, receives, 0, 4);
  for (auto& seed : {empty, failures, answers, waits, neighbour, descriptor, pieces, streams, get, strange, failure})
    seeds.push_back(seed.bytes);
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t nbytes) {
  Input input(data, nbytes);
  Address address;
  std::vector<ringtree::TcpWire::Peer> peers(fuzz::ranks);
  peers[1].host = peers[2].host = "elsewhere";  // to where no connection is made
  ringtree::TcpWire::Options options{ringtree::FileDescriptor(listening(address)), group, std::move(peers), 0, false};
  fuzz::Rank rank([&](int self, ringtree::Wire::Sink& sink) {
    return std::make_unique<ringtree::TcpWire>(self, std::move(options), sink);
  });
  Clients clients(address, input);  // gone before the rank leaves, which would wait for their farewell
  for (int k = 0; k < 60 && !input.empty(); k++) {
    auto act = static_cast<Clients::Act>(input.byte() % Clients::acts);
    if (act != Clients::ranks_turn)
      clients.act(act);
    else if (input.byte(); !rank.act(input))
      break;
    for (int turn = 0; turn < 9; turn++) rank.advance();  // every eighth looks for new connections
  }
  return 0;
}
