// The UCX wire by itself, over a UCX that this program plays: its library is opened by a name that means the program.
// What a peer does wrong is between it and this rank alone.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "wires/ucx.h"

namespace {

using namespace ringtree;

constexpr int ranks = 3;
constexpr std::uint32_t long_payload = 8192;  // comes by rendezvous here

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "ucx_wire: %s\n", what);
  std::abort();
}

// As UcxWire has it.
struct Head {
  std::uint64_t number;
  std::int32_t from;
  std::uint32_t unused;
  Proof proof;
  Frame frame;
};

struct Played {
  ucx::Handler handler = nullptr;
  void* argument = nullptr;
  std::deque<Head> under_way;  // to this rank, in the order in which they come
  std::vector<std::byte> payload = std::vector<std::byte>(long_payload);
} played;

Proof proof(int number) {
  Proof proof{};
  proof[0] = static_cast<std::byte>(number);
  return proof;
}

void send(int from, std::uint64_t number, std::uint32_t nbytes = 0) {
  Head head{number, from, 0, proof(from), {}};
  head.frame.kind = nbytes ? Frame::Kind::put : Frame::Kind::signal;
  head.frame.nbytes = nbytes;
  played.under_way.push_back(head);
}

}  // namespace

extern "C" {
ucx::Status ucp_config_read(const char*, const char*, void**) {
  return ucx::ok;
}
ucx::Status ucp_config_modify(void*, const char*, const char*) {
  return ucx::ok;
}
void ucp_config_release(void*) {}
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = ucx::major, *minor = ucx::least_minor, *release = 0;
}
ucx::Status ucp_init_version(unsigned, unsigned, const void*, const void*, void** context) {
  return *context = &played, ucx::ok;
}
ucx::Status ucp_worker_create(void*, const void*, void** worker) {
  return *worker = &played, ucx::ok;
}
void ucp_worker_destroy(void*) {}
ucx::Status ucp_worker_query(void*, ucx::WorkerAttributes* attributes) {
  static char address[] = "here";
  attributes->address = reinterpret_cast<ucx::Address*>(address);
  attributes->address_bytes = sizeof address;
  attributes->most_head_bytes = 256;
  return ucx::ok;
}
void ucp_worker_release_address(void*, void*) {}
unsigned ucp_worker_progress(void*) {
  unsigned came = 0;
  for (; !played.under_way.empty(); came++) {
    auto head = played.under_way.front();
    played.under_way.pop_front();
    ucx::Arrival arrival{head.frame.nbytes ? std::uint64_t(ucx::Arrival::rendezvous) : 0, nullptr};
    played.handler(played.argument, &head, sizeof head, played.payload.data(), head.frame.nbytes, &arrival);
  }
  return came;
}
ucx::Status ucp_worker_get_efd(void*, int* descriptor) {
  return *descriptor = -1, ucx::ok;
}
ucx::Status ucp_worker_arm(void*) {
  return ucx::ok;
}
ucx::Status ucp_worker_set_am_recv_handler(void*, const ucx::HandlerParameters* given) {
  played.handler = given->handler;
  played.argument = given->argument;
  return ucx::ok;
}
ucx::Status ucp_ep_create(void*, const void*, void** endpoint) {
  return *endpoint = &played, ucx::ok;
}
void* ucp_ep_close_nbx(void*, const void*) {
  return nullptr;
}
void* ucp_am_send_nbx(void*, unsigned, const void*, std::size_t, const void*, std::size_t, const void*) {
  return nullptr;
}
void* ucp_am_recv_data_nbx(void*, void* from, void* into, std::size_t nbytes, const void*) {
  return std::memcpy(into, from, nbytes), nullptr;
}
void ucp_am_data_release(void*, void*) {}
void ucp_request_free(void*) {}
const char* ucs_status_string(ucx::Status) {
  return "as it is";
}
}

namespace {

// What arrives here. Of rank 1 there is no payload that anybody asked for.
struct Arrivals : Wire::Sink {
  std::byte* place(int peer, const Frame&, std::shared_ptr<void>&) override {
    return peer == 1 ? nullptr : memory.data();
  }
  bool arrived(int peer, const Frame&) override { return frames[peer]++, true; }
  void sent(int, const Frame&) override {}
  void lost(int peer, const std::string&) override { losses.push_back(peer); }

  std::vector<std::byte> memory = std::vector<std::byte>(long_payload);
  std::vector<int> frames = std::vector<int>(ranks), losses;
};

struct Rank {
  Arrivals arrivals;
  UcxWire wire;

  Rank() : wire(0, {std::make_shared<ucx::Worker>(""), {{}, peer(1), peer(2)}}, arrivals) {}
  static UcxWire::Peer peer(int number) { return {"there", {}, proof(number)}; }
};

void messages_have_their_turns() {
  Rank rank;
  send(1, 2);
  send(2, 2, long_payload);
  rank.wire.progress();
  expect(rank.arrivals.frames == std::vector<int>(ranks), "messages ahead of their turn wait");
  send(2, 1);
  send(1, 1);
  rank.wire.progress();
  expect(rank.arrivals.frames == std::vector{0, 2, 2} && rank.arrivals.losses.empty(), "and come with it");
}

void what_is_not_proved_is_dropped() {
  Rank rank;
  send(1, 1);
  played.under_way.back().proof = proof(2);
  send(ranks, 1);
  rank.wire.progress();
  expect(rank.arrivals.frames == std::vector<int>(ranks) && rank.arrivals.losses.empty(), "it is as if nothing came");
}

void a_peer_that_breaks_the_rules_holds_nobody_else_up() {
  Rank rank;
  send(1, 1, long_payload);
  send(2, 2);
  send(2, 1);
  rank.wire.progress();
  expect(rank.arrivals.losses == std::vector{1}, "the peer is lost");
  expect(rank.arrivals.frames == std::vector{0, 0, 2}, "what others sent at the same time comes");
}

}  // namespace

int main() {
  messages_have_their_turns();
  what_is_not_proved_is_dropped();
  a_peer_that_breaks_the_rules_holds_nobody_else_up();
}
