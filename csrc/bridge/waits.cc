// The part of the bridge by which a chain of waits goes on behind the edge of a host. A rank that waits long for a peer
// of another host asks it now and then for its waits, and for those of the ranks that these are for, as far as the
// peer's host knows of them; it writes them down beside those of its own host, where they count for a second.
#include <algorithm>
#include <cstring>

#include "bridge/bridge.h"
#include "bridge/heads.h"
#include "waits/chain_of_waits.h"

namespace ringtree {

namespace {

constexpr std::int64_t ask_ns = 200'000'000;                // as often as a wait that becomes a link of a chain
constexpr std::int64_t longest_ns = std::int64_t{1} << 60;  // of all times that a peer may name

}  // namespace

void Bridge::ask_for_waits(int peer) {
  auto& asked_ns = peers_[peer]->asked_for_waits_ns;
  auto now = now_ns();
  if (now - asked_ns < ask_ns || !wire_->connected(peer) || !endpoint_.health().waits()) return;
  asked_ns = now;
  wire_->send(peer, frame_to(peer, Frame::Kind::ask_waits), nullptr);
}

void Bridge::send_waits(int to) {
  auto& health = endpoint_.health();
  auto waits = health.waits();
  if (!waits) return;
  auto now = now_ns();
  std::string all;
  for (auto& [rank, wait] : links_of(*waits, health.number(rank_), segment_.number(), most_waits)) {
    auto seen_ns = wait.gave_up_ns ? now - wait.gave_up_ns : 0;
    WaitHead head{rank, wait.peer, now - wait.since_ns, wait.deadline_ns - now, seen_ns, {}};
    std::memcpy(head.where, wait.where, sizeof head.where);
    all.append(reinterpret_cast<const char*>(&head), sizeof head);
  }
  if (!all.empty()) wire_->send(to, frame_to(to, Frame::Kind::waits), all);
}

// A host is believed what it says of ranks of other hosts, not of this one's.
bool Bridge::take_waits(const Frame& frame, const Peer& peer) {
  auto& health = endpoint_.health();
  auto waits = health.waits();
  auto now = now_ns();
  for (std::size_t at = 0; at + sizeof(WaitHead) <= frame.nbytes; at += sizeof(WaitHead)) {
    WaitHead head;
    std::memcpy(&head, peer.waits.data() + at, sizeof head);
    auto times = {head.age_ns, head.left_ns, head.seen_ns};
    bool sound = head.rank >= 0 && head.peer >= -1 && std::memchr(head.where, 0, sizeof head.where) &&
                 std::ranges::all_of(times, [](auto ns) { return -longest_ns < ns && ns < longest_ns; });
    if (!sound) return false;
    auto member = health.rank_of(head.rank);
    if (!member || !serves(*member) || !waits) continue;
    WaitRecord record{};
    record.since_ns = now - head.age_ns;
    record.deadline_ns = now + head.left_ns;
    record.gave_up_ns = now - std::max<std::int64_t>(head.seen_ns, 0);
    record.peer = head.peer;
    std::memcpy(record.where, head.where, sizeof record.where);
    waits->note_elsewhere(head.rank, record);
  }
  return true;
}

}  // namespace ringtree
