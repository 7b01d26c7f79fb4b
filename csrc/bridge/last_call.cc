// The part of the bridge by which hosts find out that their last calls were not the same, before their ranks leave. The
// first rank of a host speaks for all of them: it announces the last call of each, when all have begun it and it is the
// same, and the call before it: a rank may be through both before another has read what shows that the earlier one was
// mismatched. A host that is asked so answers by itself, as its ranks may be busy for long before they leave.
#include <algorithm>

#include "bridge/bridge.h"
#include "bridge/heads.h"

namespace ringtree {

bool Bridge::is_first_of_host(int rank) const {
  return std::ranges::find(hosts_, hosts_[rank]) - hosts_.begin() == rank;
}

void Bridge::announce_for_host(std::uint64_t call) noexcept {
  std::lock_guard lock(mutex_);
  guard([&] {
    if (!wire_ || !is_first_of_host(rank_)) return;
    for (int peer = 0; peer < endpoint_.ranks(); peer++)
      if (peers_[peer] && is_first_of_host(peer) && !endpoint_.health().left(peer))
        peers_[peer]->asked = std::max(peers_[peer]->asked, call);
    answer();
  });
}

// Announces, to the hosts that have yet to hear of it, the call that all ranks of this one have made. The one before it
// goes first: who has the last has both.
void Bridge::answer() {
  unanswered_ = false;
  for (int to = 0; to < endpoint_.ranks(); to++) {
    if (!peers_[to] || peers_[to]->asked <= peers_[to]->answered) continue;
    auto call = peers_[to]->asked;
    auto print = made_here(call);
    if (!print) {
      unanswered_ = true;
      continue;
    }
    peers_[to]->answered = call;
    if (auto before = call > 1 ? made_here(call - 1) : std::nullopt) announce_of_all(to, call - 1, {*before, 1, 1});
    announce_of_all(to, call, {*print, 1, 0});
  }
}

void Bridge::announce_of_all(int to, std::uint64_t call, const CallHead& head) {
  auto frame = frame_to(to, Frame::Kind::call);
  frame.number = call;
  std::memcpy(frame.head.data(), &head, sizeof head);
  wire_->send(to, frame, nullptr);
}

// What all ranks of this host have called as that call, if it is the same.
std::optional<Fingerprint> Bridge::made_here(std::uint64_t call) const {
  auto mine = endpoint_.health().call_of(rank_, call);
  for (int rank = 0; mine && rank < endpoint_.ranks(); rank++)
    if (!peers_[rank] && endpoint_.health().call_of(rank, call) != mine) return {};
  return mine;
}

void Bridge::called(int from, const Frame& frame) {
  auto head = head_of<CallHead>(frame);
  for (int rank = 0; rank < endpoint_.ranks(); rank++)
    if ((rank == from || (head.of_all && hosts_[rank] == hosts_[from])) &&
        !endpoint_.health().is_recorded(rank, frame.number))  // by another rank of this host
      endpoint_.health().report_call(rank, frame.number, head.print);
  arrived_ = true;
  if (!head.of_all || head.earlier) return;
  peers_[from]->asked = std::max(peers_[from]->asked, frame.number);
  answer();
}

}  // namespace ringtree
