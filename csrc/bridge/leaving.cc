// The part of the bridge by which other hosts hear of a failure, and of why and after which call this rank leaves.
#include <unistd.h>

#include <system_error>

#include "bridge/bridge.h"
#include "bridge/heads.h"

namespace ringtree {

namespace {

constexpr std::int64_t farewell_ns = 2'000'000'000;  // a peer that is there sends heartbeats more often
constexpr std::int64_t impatience_ns = 500'000'000;  // where the group has failed

}  // namespace

void Bridge::send_failure(int to, Failure kind, int rank, const std::string& text) {
  auto frame = frame_to(to, Frame::Kind::failure);
  frame.number = static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank)) << 32 | static_cast<unsigned>(kind);
  wire_->send(to, frame, text.substr(0, sizeof(Poison::text) - 1));
}

void Bridge::send_cause(int to, const FirstCause& cause) {
  auto frame = frame_to(to, Frame::Kind::cause);
  frame.number = static_cast<std::uint32_t>(cause.culprit) | (endpoint_.health().by_error(rank_) ? by_error : 0);
  wire_->send(to, frame, cause.text.substr(0, sizeof(ReportedCause::text) - 1));
}

// One rank of each other host but `but`, and its host hears with it: one that this rank is in touch with, where there
// is one, for it may have no descriptor for a connection.
std::map<int, int> Bridge::one_of_each_host(int but) const {
  std::map<int, int> hears;
  for (int peer = 0; peer < endpoint_.ranks(); peer++) {
    if (!peers_[peer] || peer == but || endpoint_.health().left(peer)) continue;
    auto& chosen = hears.try_emplace(hosts_[peer], peer).first->second;
    if (!wire_->connected(chosen) && wire_->connected(peer)) chosen = peer;
  }
  return hears;
}

void Bridge::failed(Failure kind, int rank, const std::string& text) noexcept {
  std::lock_guard lock(mutex_);
  if (!wire_) return;
  for (auto [host, peer] : one_of_each_host(rank)) guard([&] { send_failure(peer, kind, rank, text); });
}

// Connects to a host that this rank has never been in touch with, which would find nobody to ask why it left.
void Bridge::seek_hearers() {
  for (auto [host, peer] : one_of_each_host(-1)) {
    if (wire_->connected(peer)) continue;
    try {
      wire_->connect(peer);
    } catch (const std::system_error&) {
      return;  // for want of a descriptor: the others do without the cause
    }
  }
}

// Before leaving: a peer that still waits is to learn after which call this rank leaves, and why.
void Bridge::take_leave() {
  std::lock_guard lock(mutex_);
  guard([&] {
    auto failure = endpoint_.health().failure();
    if (!failure && endpoint_.health().by_error(rank_)) seek_hearers();
    auto reported = endpoint_.health().reported_by(rank_);
    auto call = endpoint_.health().last_call(rank_);
    auto print = endpoint_.health().call_of(rank_, call);
    for (int peer = 0; peer < endpoint_.ranks(); peer++) {
      if (!peers_[peer] || !wire_->connected(peer)) continue;
      if (print) announce_to(peer, call, *print);
      if (reported) send_cause(peer, *reported);
      if (failure && peer != failure->rank) send_failure(peer, failure->kind, failure->rank, failure->what());
    }
  });
}

// Returns when every peer has read all that was sent to it. Gives up on peers that are silent, and soon where the group
// has failed.
void Bridge::close() {
  if (!thread_.joinable()) return;
  end_accesses();
  retire();
  auto step = [this](void (Wire::*announce)()) {
    std::lock_guard lock(mutex_);
    guard([&] { (wire_.get()->*announce)(); });
  };
  take_leave();
  step(&Wire::leave);
  for (auto moved_ns = now_ns();; usleep(50)) {
    std::lock_guard lock(mutex_);
    if (move()) moved_ns = now_ns();
    if (wire_->finished()) break;
    if (now_ns() - moved_ns > (endpoint_.health().failed() ? impatience_ns : farewell_ns)) break;
  }
  step(&Wire::depart);
  stopping_.store(true);
  call_thread();
  thread_.join();
  std::lock_guard lock(mutex_);
  wire_.reset();
}

}  // namespace ringtree
