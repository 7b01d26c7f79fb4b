#include "waits/wait.h"

#include <algorithm>

#include "waits/background.h"

namespace ringtree {

namespace {

constexpr int spin_turns = 2000;  // tens of µs: a peer that is on its way
constexpr int few_turns = 20;     // where peers share a core, and one that spins keeps the other from it
constexpr std::int64_t shared_ns[] = {1'200, 200'000};  // a yield to such a one; less: to nobody, more: to who computes
constexpr std::int64_t yield_ns = 500'000;              // then let others have the core, until it is worth a futex
constexpr std::int64_t look_ns = 50'000'000;            // how often to look for dead peers, signals and wrong calls
constexpr std::int64_t first_look_ns = 2'000'000;       // a mismatch should not take long to show

}  // namespace

Seat::Seat(Segment& segment, int rank, Kin kin, Options options)
    : segment_(segment),
      rank_(rank),
      options_(std::move(options)),
      timeout_s_(options_.timeout_s),
      health_(segment, rank, std::move(kin)),
      spins_(options_.crowded ? 0 : spin_turns) {}

void Seat::Wait::begin_slowly() {
  hooks_.blocking();
  idle_since_ns_ = now_ns();
  auto begun_ns = patience_.begun_ns ? patience_.begun_ns : idle_since_ns_;
  deadline_ns_ = begun_ns + static_cast<std::int64_t>(std::min(patience_.seconds, 1e9) * 1e9);
  next_look_ns_ = idle_since_ns_ + first_look_ns;
}

void Seat::Wait::yield() {
  const std::int64_t start = now_ns();
  sched_yield();
  if (seat_.options_.crowded) return;
  const std::int64_t took_ns = now_ns() - start;
  bool shared = took_ns > shared_ns[0] && took_ns < shared_ns[1];
  seat_.spins_.store(shared ? few_turns : spin_turns, std::memory_order_relaxed);
}

bool Seat::Wait::work() {
  bool helped = situation_.help();
  bool moved = Background::advance_all();
  now_ns_ = now_ns();
  if (helped || moved) idle_since_ns_ = now_ns_;
  return helped || moved;
}

bool Seat::Wait::tired() const {
  return now_ns_ - idle_since_ns_ > yield_ns;
}

bool Seat::Wait::look_around() {
  if (seat_.health_.failed()) seat_.health_.raise_failure();
  if (seat_.stopping.load(std::memory_order_relaxed))
    throw Error(Failure::poisoned, -1, seat_.name(seat_.rank_) + " closed its group while in " + situation_.where());
  return now_ns_ >= next_look_ns_ || now_ns_ >= deadline_ns_;
}

void Seat::Wait::look_closely(AnyQuestion question) {
  next_look_ns_ = now_ns_ + look_ns;
  hooks_.interrupted();
  seat_.look_for_dead(peer_, situation_);
  if (seat_.health_.failed()) seat_.health_.raise_failure();
  bool left = peer_ >= 0 && seat_.health_.left(peer_);
  if (left) work();
  if (question()) return;  // what a peer sent before it left still counts
  if (left)
    seat_.fail(Failure::died, peer_,
               seat_.name(peer_) + " left the group while " + seat_.name(seat_.rank_) + " waited for it in " +
                   situation_.where());
  situation_.inspect();
  if (now_ns_ < deadline_ns_) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", patience_.seconds);
  auto text = seat_.name(seat_.rank_) + " waited " + seconds + " s for " +
              (peer_ < 0 ? "its peers" : seat_.name(peer_)) + " in " + situation_.where();
  if (situation_.abandon()) throw Error(Failure::timed_out, -1, text);
  seat_.fail(Failure::timed_out, -1, text);
}

void Seat::look(std::span<const int> ranks, std::span<const int> absent, Situation& situation) {
  if (health_.failed()) health_.raise_failure();
  for (int rank : ranks)
    if (found_dead(rank, -1, situation)) break;
  for (int rank : absent)
    if (health_.left(rank))
      health_.report_failure(
          Failure::died, rank,
          name(rank) + " left the group while " + name(rank_) + " waited for it in " + situation.where());
  if (health_.failed()) health_.raise_failure();
}

void Seat::look_for_dead(int peer, Situation& situation) {
  for (int rank = 0; rank < ranks(); rank++)
    if (found_dead(rank, peer, situation)) return;
}

bool Seat::found_dead(int rank, int peer, Situation& situation) {
  if (!health_.died(rank)) return false;
  auto text = name(rank) + " " + health_.how_died(rank) + " while " + name(rank_) + " waited for " +
              (rank == peer ? "it"
               : peer < 0   ? "its peers"
                            : name(peer)) +
              " in " + situation.where();
  health_.report_failure(Failure::died, rank, text);
  return true;
}

}  // namespace ringtree
