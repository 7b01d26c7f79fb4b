#include "bridge/bridge.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "bridge/heads.h"
#include "memory/limits.h"

namespace ringtree {

namespace {

constexpr std::int64_t absent_ns = 300'000;           // a caller that moved nothing for so long computes
constexpr std::int64_t longest_sleep_ns = 3'000'000;  // of the thread, while a caller moves frames call after call
constexpr std::int64_t tick_ns = 250'000'000;         // heartbeats are looked after so often
constexpr std::int64_t owed_ns = 1'000'000;           // credits that may wait for a frame are sent after so long

}  // namespace

Bridge::Peer::Peer(Segment& segment, int rank, int peer)
    : lane_sent(segment.lane_in(rank, peer)),
      pipe_sent(segment.pipe_in(rank, peer)),
      lane_arrived(segment.lane_out(peer, rank)),
      pipe_arrived(segment.pipe_out(peer, rank)),
      arrivals(segment.layout().depth),
      waits(most_waits * sizeof(WaitHead)) {}

Bridge::Bridge(Endpoint& endpoint, const Network& network)
    : endpoint_(endpoint),
      segment_(endpoint.segment()),
      rank_(endpoint.rank()),
      hosts_(network.hosts),
      called_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (int error = errno; called_.fd() < 0)
    throw std::system_error(error, std::generic_category(), "cannot make an event descriptor" + limit_behind(error));
  peers_.resize(endpoint.ranks());
  for (int peer = 0; peer < endpoint.ranks(); peer++)
    if (hosts_[peer] != hosts_[rank_]) peers_[peer] = std::make_unique<Peer>(segment_, rank_, peer);
  // A quarter of each lane, less one, is owed at most: then half of each peer's slots are free whatever all owe it that
  // are on other hosts than the peer.
  std::ptrdiff_t most = 0;
  for (int host : hosts_) most = std::max(most, std::ranges::count_if(hosts_, [&](int of) { return of != host; }));
  may_owe_ = most * static_cast<std::ptrdiff_t>(segment_.layout().depth / 4 - 1) <= segment_.layout().slots / 2;
  wire_ = network.wire(rank_, *this);
  sends_from_anywhere_ = wire_->can_keep_payloads();
  map_staging();
  try {
    endpoint_.set_relay(this);
    endpoint_.health().observe(this);
    enlist();
    thread_ = start_thread("that serves other hosts", [this] { loop(); });
  } catch (...) {
    detach();
    throw;
  }
}

Bridge::~Bridge() {
  close();
  detach();
}

// Nobody has a pointer to this any more.
void Bridge::detach() noexcept {
  retire();
  endpoint_.health().observe(nullptr);
  endpoint_.set_relay(nullptr);
  if (staging_) munmap(staging_, staging_bytes_);
}

void Bridge::add_region(const std::byte* base) {
  std::lock_guard lock(mutex_);
  regions_.push_back(base);
}

// An error here makes the group fail, as the caller is in the middle of a call.
void Bridge::guard(const std::function<void()>& action) noexcept {
  try {
    action();
  } catch (const std::exception& error) {
    endpoint_.health().report_failure(
        Failure::poisoned, -1, endpoint_.name(rank_) + " failed to move messages between hosts: " + error.what());
  }
}

void Bridge::flush(int peer) noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    if (!wire_) return;
    relay(peer);
    give_credits(peer, false);
  });
}

bool Bridge::advance() noexcept {
  visited_ns_.store(now_ns(), std::memory_order_relaxed);
  std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && wire_ && move();
}

void Bridge::settle() noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    if (!wire_) return;
    pay();
    if (unanswered_) answer();
    if (!wire_->busy()) return;
    visited_ns_.store(0, std::memory_order_relaxed);  // the caller goes: the rest is the thread's to send
    call_thread();
  });
}

void Bridge::keep_payloads() noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    if (wire_) wire_->keep_payloads();
  });
}

void Bridge::probe(int peer) noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    probed_ = peer;
    if (!wire_) return;
    if (!wire_->connected(peer)) wire_->connect(peer);
    ask_for_waits(peer);
  });
}

void Bridge::probe_next() noexcept {
  std::lock_guard lock(mutex_);
  for (int turn = 0; wire_ && turn < endpoint_.ranks(); turn++) {
    int peer = probed_last_ = (probed_last_ + 1) % endpoint_.ranks();
    if (!peers_[peer] || endpoint_.health().left(peer) || wire_->connected(peer)) continue;
    try {
      return wire_->connect(peer);
    } catch (const std::system_error&) {
      return;  // for want of a descriptor, whose lack fails nothing here
    }
  }
}

void Bridge::announce(std::uint64_t call, const Fingerprint& print) noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    int peer = std::exchange(probed_, -1);
    if (wire_ && peer >= 0) announce_to(peer, call, print);
  });
}

void Bridge::announce_to_all(std::uint64_t call, const Fingerprint& print) noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    for (int peer = 0; wire_ && peer < endpoint_.ranks(); peer++)
      if (peers_[peer]) announce_to(peer, call, print);
  });
}

void Bridge::announce_to(int to, std::uint64_t call, const Fingerprint& print) {
  if (peers_[to]->announced == call) return;
  peers_[to]->announced = call;
  auto frame = frame_to(to, Frame::Kind::call);
  frame.number = call;
  CallHead head{print, 0, 0};
  std::memcpy(frame.head.data(), &head, sizeof head);
  wire_->send(to, frame, nullptr);
}

// With the mutex held, as all that follows.
bool Bridge::move() {
  bool moved = false;
  guard([&] {
    moved = wire_->progress();
    if (!moved) moved = pay();
  });
  if (std::exchange(arrived_, false)) {
    endpoint_.ring_here();
    endpoint_.wake_progress_thread(rank_);
  }
  return moved;
}

// Sends what this rank has published for `peer`.
void Bridge::relay(int to) {
  auto& peer = *peers_[to];
  while (peer.lane_sent.ready()) {
    auto& descriptor = peer.lane_sent.take();
    send_message(to, descriptor, peer.lane_sent.taken());
  }
  while (peer.pipe_sent.ready()) {
    auto& piece = peer.pipe_sent.take();
    send_message(to, piece, peer.pipe_sent.taken());
  }
}

void Bridge::send_message(int to, const Descriptor& descriptor, std::uint64_t number) {
  auto frame = frame_to(to, Frame::Kind::descriptor);
  frame.number = number;
  frame.nbytes = static_cast<std::uint32_t>(descriptor.nbytes());
  DescriptorHead head{descriptor.print, descriptor.call, descriptor.size};
  std::memcpy(frame.head.data(), &head, sizeof head);
  auto& location = descriptor.location;
  const std::byte* payload = descriptor.payload;
  if (descriptor.protocol() == Protocol::copy) payload = segment_.outbox(rank_) + location.base;
  if (descriptor.protocol() == Protocol::zero_copy)
    payload = location.base == Descriptor::Location::memory ? reinterpret_cast<const std::byte*>(location.offset)
                                                            : regions_.at(location.base) + location.offset;
  wire_->send(to, frame, payload);
}

void Bridge::send_message(int to, const Piece& piece, std::uint64_t number) {
  auto frame = frame_to(to, Frame::Kind::piece);
  frame.number = number;
  frame.nbytes = piece.nbytes;
  PieceHead head{piece.total, piece.tag, piece.dtype, piece.first};
  std::memcpy(frame.head.data(), &head, sizeof head);
  auto index = (number - 1) % segment_.layout().pieces;
  auto payload = piece.nbytes <= Piece::room ? piece.payload : segment_.piece_staging(rank_, to, index, piece.nbytes);
  wire_->send(to, frame, payload);
}

// Every frame brings credits along.
Frame Bridge::frame_to(int to, Frame::Kind kind) {
  auto& peer = *peers_[to];
  peer.lane_credited = peer.lane_arrived.given_back();
  peer.pipe_credited = peer.pipe_arrived.given_back();
  Frame frame{};
  frame.kind = kind;
  frame.lane_credit = static_cast<std::uint32_t>(peer.lane_credited);
  frame.pipe_credit = static_cast<std::uint32_t>(peer.pipe_credited);
  return frame;
}

// Gives back what the peer may need to go on: a quarter of a lane, or (`all`) every slot.
void Bridge::give_credits(int to, bool all) {
  auto& peer = *peers_[to];
  auto lane = peer.lane_arrived.given_back(), pipe = peer.pipe_arrived.given_back();
  bool many = lane - peer.lane_credited >= segment_.layout().depth / 4 ||
              pipe - peer.pipe_credited >= segment_.layout().pieces / 4;
  bool slots =
      peer.lane_credited < std::min(lane, peer.lane_staged) || peer.pipe_credited < std::min(pipe, peer.pipe_staged);
  if (many || (all && slots)) {
    wire_->send(to, frame_to(to, Frame::Kind::credit), nullptr);
  } else if (slots && !peer.owes) {
    peer.owes = true;
    if (owing_.empty()) owing_since_ns_ = now_ns();
    owing_.push_back(to);
  }
}

// Sends the credits that are due; whether there were any. Those that may wait for a frame are due after a while all the
// same: this rank may be waiting for one that waits for its slots.
bool Bridge::pay() {
  if (owing_.empty() || (may_owe_ && now_ns() - owing_since_ns_ < owed_ns)) return false;
  auto owing = std::exchange(owing_, {});
  for (int to : owing) {
    peers_[to]->owes = false;
    give_credits(to, true);
  }
  return true;
}

bool Bridge::move_locked() {
  std::lock_guard lock(mutex_);
  return move();
}

bool Bridge::arm() {
  std::lock_guard lock(mutex_);
  bool armed = true;
  guard([&] { armed = wire_->arm(); });
  return armed;
}

// While the program computes: moves frames that arrive, and what the network had no room for. A caller that waits moves
// its frames itself, and the thread keeps out of its way.
void Bridge::loop() {
  std::int64_t ticked_ns = now_ns(), sleep_ns = absent_ns;
  pollfd ready[2] = {{wire_->descriptor(), POLLIN, 0}, {called_.fd(), POLLIN, 0}};
  while (!stopping_.load()) {
    bool armed = arm();
    poll(ready, 2, armed ? static_cast<int>(tick_ns / 1'000'000) : 0);
    if (std::uint64_t calls; ready[1].revents & POLLIN) (void)!read(called_.fd(), &calls, sizeof calls);
    auto now = now_ns();
    if (now - ticked_ns > tick_ns) {
      std::lock_guard lock(mutex_);
      guard([&] {
        wire_->tick();
        if (unanswered_) answer();
      });
      move();  // what came meanwhile is reported
      ticked_ns = now;
    }
    if (armed && !(ready[0].revents & POLLIN)) continue;
    if (auto since = now - visited_ns_.load(std::memory_order_relaxed); since < sleep_ns) {
      sleep_until_called(sleep_ns);
      sleep_ns = std::min(2 * sleep_ns, longest_sleep_ns);
      continue;
    }
    sleep_ns = absent_ns;
    if (!move_locked() && !armed) usleep(absent_ns / 1000);  // the wire has something to do, but not now
  }
}

void Bridge::call_thread() {
  std::uint64_t one = 1;
  (void)!write(called_.fd(), &one, sizeof one);
}

void Bridge::sleep_until_called(std::int64_t ns) {
  pollfd called{called_.fd(), POLLIN, 0};
  timespec limit{0, ns};
  ppoll(&called, 1, &limit, nullptr);
}

}  // namespace ringtree
