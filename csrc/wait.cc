#include "wait.h"

#include <algorithm>
#include <cstring>

#include "background.h"

namespace ringtree {

namespace {

constexpr int spin_turns = 2000;  // tens of µs: a peer that is on its way
constexpr int few_turns = 20;     // where peers share a core, and one that spins keeps the other from it
constexpr std::int64_t shared_ns[] = {1'200, 200'000};  // a yield to such a one; less: to nobody, more: to who computes
constexpr std::int64_t yield_ns = 500'000;              // then let others have the core, until
constexpr std::int64_t sleep_ns = 1'000'000;            // it is worth a futex; also the longest a missed wake costs
constexpr std::int64_t look_ns = 50'000'000;            // how often to look for dead peers, signals and wrong calls
constexpr std::int64_t first_look_ns = 2'000'000;       // a mismatch should not take long to show

}  // namespace

Seat::Seat(Segment& segment, int rank, Kin kin, Options options)
    : segment_(segment),
      rank_(rank),
      options_(std::move(options)),
      timeout_s_(options_.timeout_s),
      watch_(segment, std::move(kin), rank),
      spins_(options_.crowded ? 0 : spin_turns) {}

void Seat::yield() {
  const std::int64_t start = now_ns();
  sched_yield();
  if (options_.crowded) return;
  const std::int64_t took_ns = now_ns() - start;
  bool shared = took_ns > shared_ns[0] && took_ns < shared_ns[1];
  spins_.store(shared ? few_turns : spin_turns, std::memory_order_relaxed);
}

void Seat::slow(Ready ready, void* of, int peer, Situation& situation, Hooks& hooks, Patience patience) {
  hooks.blocking();
  const std::int64_t start = now_ns();
  const std::int64_t deadline = (patience.begun_ns ? patience.begun_ns : start) +
                                static_cast<std::int64_t>(std::min(patience.seconds, 1e9) * 1e9);
  std::int64_t next_look = start + first_look_ns;
  for (;;) {
    yield();
    if (ready(of)) return;
    situation.help();
    bool busy = Background::advance_all();
    std::int64_t now = now_ns();
    if (now - start > yield_ns && !busy) sleep(ready, of);
    if (ready(of)) return;
    if (poisoned()) raise_poison();
    if (stopping.load(std::memory_order_relaxed))
      throw Error(Failure::poisoned, -1, name(rank_) + " closed its group while in " + situation.where());
    if (now < next_look && now < deadline) continue;
    next_look = now + look_ns;
    hooks.interrupted();
    look_for_dead(peer, situation);
    if (poisoned()) raise_poison();
    if (ready(of)) return;  // what a peer sent before it left still counts
    if (peer >= 0 && left(peer) && !ready(of))
      fail(Failure::died, peer,
           name(peer) + " left the group while " + name(rank_) + " waited for it in " + situation.where());
    situation.inspect();
    if (now >= deadline) {
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, "%g", patience.seconds);
      auto text = name(rank_) + " waited " + seconds + " s for " + (peer < 0 ? "its peers" : name(peer)) + " in " +
                  situation.where();
      if (situation.abandon()) throw Error(Failure::timed_out, -1, text);
      fail(Failure::timed_out, -1, text);
    }
  }
}

// The bell is set before the last look, so a peer that stores after that look sees it and rings; see ring() for the one
// order in which it does not.
void Seat::sleep(Ready ready, void* of) {
  auto& bell = segment_.member(rank_).bell;
  bell.store(1, std::memory_order_seq_cst);
  if (!ready(of)) futex_wait(bell, 1, sleep_ns);
  bell.store(0, std::memory_order_relaxed);
}

void Seat::wake(std::atomic<std::uint32_t>& bell) {
  bell.store(0, std::memory_order_relaxed);
  futex_wake(bell);
}

void Seat::look(std::span<const int> ranks, std::span<const int> absent, Situation& situation) {
  if (poisoned()) raise_poison();
  for (int rank : ranks)
    if (found_dead(rank, -1, situation)) break;
  for (int rank : absent)
    if (left(rank))
      poison(Failure::died, rank,
             name(rank) + " left the group while " + name(rank_) + " waited for it in " + situation.where());
  if (poisoned()) raise_poison();
}

void Seat::look_for_dead(int peer, Situation& situation) {
  for (int rank = 0; rank < ranks(); rank++)
    if (found_dead(rank, peer, situation)) return;
}

bool Seat::found_dead(int rank, int peer, Situation& situation) {
  if (rank == rank_ || !watch_.died(rank)) return false;
  auto text = name(rank) + " died (process " + std::to_string(segment_.member(rank).process) + " ended) while " +
              name(rank_) + " waited for " +
              (rank == peer ? "it"
               : peer < 0   ? "its peers"
                            : name(peer)) +
              " in " + situation.where();
  poison(Failure::died, rank, text);
  return true;
}

void Seat::poison(Failure kind, int rank, const std::string& text) {
  auto& poison = segment_.header().poison;
  std::uint32_t none = 0;
  if (poison.state.compare_exchange_strong(none, 1, std::memory_order_relaxed)) {
    poison.kind = static_cast<std::uint32_t>(kind);
    poison.rank = rank;
    std::strncpy(poison.text, text.c_str(), sizeof poison.text - 1);
    poison.state.store(2, std::memory_order_release);  // pairs with raise_poison()
    for (int peer = 0; peer < ranks(); peer++)
      if (peer != rank_) ring(peer);
  }
}

void Seat::fail(Failure kind, int rank, const std::string& text) {
  poison(kind, rank, text);
  raise_poison();
}

void Seat::raise_poison() {
  auto& poison = segment_.header().poison;
  // Whoever set the state to 1 writes a few hundred bytes and goes on, unless it was killed just there.
  for (std::int64_t until = now_ns() + 1'000'000'000; poison.state.load(std::memory_order_acquire) != 2;) {
    sched_yield();
    if (now_ns() > until) throw Error(Failure::poisoned, -1, "the group failed; its reason was never written");
  }
  if (told_.exchange(true, std::memory_order_relaxed))
    throw Error(Failure::poisoned, -1,
                std::string("this group failed before (") + poison.text + "); close it and make another");
  throw Error(static_cast<Failure>(poison.kind), poison.rank, poison.text);
}

void Seat::leave() {
  segment_.member(rank_).left.store(1, std::memory_order_release);  // pairs with left(): what was sent is out
  for (int peer = 0; peer < ranks(); peer++)
    if (peer != rank_) ring(peer);
  watch_.end();
}

}  // namespace ringtree
