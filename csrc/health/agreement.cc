#include "health/agreement.h"

#include <stdexcept>
#include <string>

namespace ringtree {

namespace {

constexpr std::uint64_t made_bit = 1u << 31;
constexpr std::uint64_t rank_mask = made_bit - 1;

std::uint32_t turn_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

}  // namespace

// The memory that this rank writes exists from here on.
void Agreement::prepare() {
  auto& layout = segment_.layout();
  segment_.existing(segment_.ballots(), cache_line + layout.ranks * sizeof(Ballot));
  for (auto odd : {0, 1})
    segment_.existing(reinterpret_cast<std::byte*>(segment_.proposal(rank_, odd)), layout.proposal_bytes);
}

void Agreement::arrive(std::uint32_t turn, bool ready, const std::vector<int>& shunned) {
  prepare();
  for (int rank : shunned) {
    if (rank < 0 || rank >= segment_.layout().ranks) throw std::invalid_argument("rank " + std::to_string(rank));
    ballot(rank).shunned.store(1, std::memory_order_relaxed);
  }
  auto word = std::uint64_t(turn) << 1 | (ready ? 1 : 0);
  ballot(rank_).arrived.store(word, std::memory_order_release);  // pairs with arrivals(): whom it shuns is there
}

std::vector<Agreement::Arrival> Agreement::arrivals() {
  prepare();
  std::vector<Arrival> found(segment_.layout().ranks);
  for (int rank = 0; rank < segment_.layout().ranks; rank++) {
    auto word = ballot(rank).arrived.load(std::memory_order_acquire);
    found[rank] = {static_cast<std::uint32_t>(word >> 1), (word & 1) != 0, false};
  }
  for (int rank = 0; rank < segment_.layout().ranks; rank++)
    found[rank].shunned = ballot(rank).shunned.load(std::memory_order_relaxed) != 0;
  return found;
}

// The members are written where only this rank writes, by turns in two places: a rank that reads the decision before
// this one finds it whole.
bool Agreement::decide(const Decision& decision) {
  prepare();
  auto& word = segment_.decided();
  auto before = word.load(std::memory_order_acquire);
  if (decision.turn != turn_of(before) + 1) return false;
  auto mine = segment_.proposal(rank_, decision.turn % 2);
  auto words = segment_.layout().proposal_bytes / sizeof *mine;
  for (std::size_t i = 0; i < words; i++) mine[i].store(0, std::memory_order_relaxed);
  for (int rank : decision.members) mine[rank / 64].fetch_or(std::uint64_t(1) << rank % 64, std::memory_order_relaxed);
  auto next = std::uint64_t(decision.turn) << 32 | (decision.made ? made_bit : 0) | static_cast<unsigned>(rank_);
  return word.compare_exchange_strong(before, next, std::memory_order_acq_rel, std::memory_order_relaxed);
}

Agreement::Decision Agreement::decision() {
  prepare();
  auto& word = segment_.decided();
  for (;;) {
    auto seen = word.load(std::memory_order_acquire);  // pairs with decide()
    Decision found{turn_of(seen), (seen & made_bit) != 0, {}};
    if (found.turn == 0) return found;
    auto members = segment_.proposal(static_cast<int>(seen & rank_mask), found.turn % 2);
    for (int rank = 0; rank < segment_.layout().ranks; rank++)
      if (members[rank / 64].load(std::memory_order_relaxed) >> rank % 64 & 1) found.members.push_back(rank);
    std::atomic_thread_fence(std::memory_order_acquire);
    // Its author writes there again only once there was another decision.
    if (word.load(std::memory_order_relaxed) == seen) return found;
  }
}

}  // namespace ringtree
