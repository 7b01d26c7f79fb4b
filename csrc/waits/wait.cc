#include "waits/wait.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ranges>

#include "waits/background.h"
#include "waits/chain_of_waits.h"
#include "waits/straggler.h"

namespace ringtree {

namespace {

constexpr int most_spins = 2000;  // tens of µs: a peer that is on its way
constexpr int few_spins = 20;     // where peers share a core, and one that spins keeps the other from it
constexpr std::int64_t shared_ns[] = {
    1'200, 200'000};                           // a yield to such a one; shorter: to none, longer: to one that computes
constexpr std::int64_t hold_ns = 20'000;       // the longest that other threads of the host wait for its lock
constexpr std::int64_t yield_ns = 500'000;     // then let others have the core, until it is worth a futex
constexpr std::int64_t check_ns = 50'000'000;  // how often to look for dead peers, signals and wrong calls
constexpr std::int64_t first_check_ns = 2'000'000;  // a mismatch should not take long to show

}  // namespace

Endpoint::Endpoint(Segment& segment, int rank, InheritedLiveness inherited, Options options)
    : segment_(segment),
      rank_(rank),
      options_(std::move(options)),
      timeout_s_(options_.timeout_s),
      health_(segment, rank, std::move(inherited)),
      spins_(options_.oversubscribed ? 0 : most_spins),
      home_core_(options_.cores.empty() ? -1 : options_.cores[rank]),
      neighbours_(segment, rank, options_.cores),
      waited_(segment.layout().ranks) {}

void Endpoint::Wait::begin_slowly() {
  is_long_ = false;
  endpoint_.home_core_.visit();
  if (!endpoint_.options_.oversubscribed || endpoint_.options_.threads) let_go();
}

void Endpoint::Wait::let_go() {
  hooks_.blocking();
  let_go_ = true;
}

void Endpoint::Wait::begin_clock() {
  idle_since_ns_ = now_ns_;
  begun_ns_ = patience_.begun_ns ? patience_.begun_ns : now_ns_;
  started_ns_ = now_ns_;
  deadline_ns_ = begun_ns_ + static_cast<std::int64_t>(std::min(patience_.seconds, 1e9) * 1e9);
  next_check_ns_ = now_ns_ + first_check_ns;
  hold_until_ns_ = now_ns_ + hold_ns;
}

void Endpoint::Wait::yield() {
  if (endpoint_.options_.oversubscribed) {
    bool here = !endpoint_.relay_;  // a neighbour may have the network's work to do
    if (here && endpoint_.neighbours_.keep_core(peer_, situation_.short_exchange(), questions_))
      ringtree::pause();
    else
      sched_yield();
    return;
  }
  const std::int64_t start = now_ns();
  sched_yield();
  const std::int64_t took_ns = now_ns() - start;
  bool shared = took_ns > shared_ns[0] && took_ns < shared_ns[1];
  endpoint_.spins_.store(shared ? few_spins : most_spins, std::memory_order_relaxed);
}

bool Endpoint::Wait::work() {
  bool helped = situation_.help();
  bool moved = Background::advance_all();
  now_ns_ = now_ns();
  if (!deadline_ns_) begin_clock();
  if (!let_go_ && now_ns_ >= hold_until_ns_) let_go();
  if (helped || moved) idle_since_ns_ = now_ns_;
  return helped || moved;
}

bool Endpoint::Wait::tired() const {
  return now_ns_ - idle_since_ns_ > yield_ns;
}

bool Endpoint::Wait::check_often() {
  if (endpoint_.health_.failed()) endpoint_.health_.raise_failure();
  if (endpoint_.stopping.load(std::memory_order_relaxed))
    throw Error(Failure::poisoned, -1,
                with_cause(endpoint_.name(endpoint_.rank_) + " closed its group while in " + situation_.where(),
                           endpoint_.health_.why_leaving()));
  return now_ns_ >= next_check_ns_ || now_ns_ >= deadline_ns_;
}

void Endpoint::Wait::check_closely(AnyQuestion question) {
  next_check_ns_ = now_ns_ + check_ns;
  if (!is_long_) {
    is_long_ = true;
    written_down_ = -1;
    write_down_ns_ = started_ns_ + LongWaits::long_ns;
    auto& [share, least_s] = endpoint_.options_.warning;
    auto warn_s = std::max(share * std::min(patience_.seconds, 1e9), least_s);
    warn_ns_ = share > 0 ? begun_ns_ + static_cast<std::int64_t>(warn_s * 1e9) : 0;
  }
  if (write_down_ns_ && now_ns_ >= write_down_ns_) write_down();
  if (warn_ns_ && now_ns_ >= warn_ns_) warn();
  hooks_.interrupted();
  endpoint_.check_for_dead(peer_, situation_);
  if (endpoint_.health_.failed()) endpoint_.health_.raise_failure();
  bool left = peer_ >= 0 && endpoint_.health_.left(peer_);
  if (left) work();
  if (question()) return;  // what a peer sent before it left still counts
  if (left) {
    situation_.inspect();  // a rank that left after another call than this one is no death
    endpoint_.report_departure(peer_, situation_.where() + situation_.noticed());
    endpoint_.health_.raise_failure();
  }
  situation_.inspect();
  if (now_ns_ >= deadline_ns_) give_up();
}

void Endpoint::Wait::give_up() {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", patience_.seconds);
  auto text = endpoint_.name(endpoint_.rank_) + " waited " + seconds + " s for " +
              (peer_ < 0 ? "its peers" : endpoint_.name(peer_)) + " in " + situation_.where() + situation_.noticed();
  auto cause = endpoint_.cause_of_delay(peer_);
  gave_up_ = true;
  auto& health = endpoint_.health_;
  auto culprit = cause ? cause->culprit : peer_ < 0 ? -1 : health.number(peer_);
  if (situation_.abandon()) {
    auto why = !cause ? text : cause->culprit < 0 ? text + ", as " + cause->text : cause->text;
    health.family().raises({culprit, why, now_ns_});
    throw Error(Failure::timed_out, -1, with_cause(text, cause));
  }
  text = with_cause(text, cause);
  health.report_failure(Failure::timed_out, -1, text, culprit);
  health.raise_failure();
}

void Endpoint::Wait::write_down() {
  write_down_ns_ = 0;
  written_down_ = endpoint_.write_down(begun_ns_, deadline_ns_, peer_, situation_.where() + situation_.noticed());
}

int Endpoint::write_down(std::int64_t since_ns, std::int64_t deadline_ns, int peer, const std::string& where) {
  auto waits = health_.waits();
  if (!waits) return -1;
  std::string group;
  if (options_.made_from_another)
    for (auto& name : names()) group += (group.empty() ? "" : ", ") + name;
  return waits->begin(since_ns, deadline_ns, peer < 0 ? -1 : health_.number(peer), where, group, segment_.number());
}

void Endpoint::Wait::end_long() {
  if (auto waits = written_down_ >= 0 ? endpoint_.health_.waits() : nullptr)
    gave_up_ ? waits->give_up(written_down_, now_ns()) : waits->end(written_down_);
  if (peer_ < 0) return;
  auto& waited = endpoint_.waited_[peer_];
  waited.waits.fetch_add(1, std::memory_order_relaxed);
  waited.ns.fetch_add(now_ns() - started_ns_, std::memory_order_relaxed);
}

// One line to the standard error, by one of the ranks that a straggler holds up.
void Endpoint::Wait::warn() {
  warn_ns_ = 0;
  auto& health = endpoint_.health_;
  auto name = [&](int rank) { return endpoint_.name(rank); };
  auto whom = peer_ < 0 ? std::string("its peers") : name(peer_);
  std::string further;
  auto waits = health.liveness() ? health.waits() : nullptr;
  if (peer_ >= 0 && waits) {
    auto found = straggler(*waits, health.number(endpoint_.rank_), health.number(peer_));
    if (!found) return;
    if (!found->circle.empty()) {
      further = ", which waits itself: ranks";
      for (int rank : found->circle) further.append(" ").append(std::to_string(rank));
      further += " of the world wait for each other in a circle";
    } else if (auto process = endpoint_.segment_.member(peer_).process; process && !endpoint_.elsewhere(peer_)) {
      further = " (ringtree stack " + std::to_string(process) + " shows where that is)";
    }
  }
  dprintf(STDERR_FILENO, "ringtree: %s has waited %.3g s of at most %.3g s for %s in %s%s\n",
          name(endpoint_.rank_).c_str(), static_cast<double>(now_ns_ - begun_ns_) * 1e-9, patience_.seconds,
          whom.c_str(), (situation_.where() + situation_.noticed()).c_str(), further.c_str());
}

void Endpoint::check_liveness(std::span<const int> ranks, std::span<const int> absent, Situation& situation) {
  if (health_.failed()) health_.raise_failure();
  if (!found_dead(ranks, -1, situation))
    for (int rank : absent)
      if (health_.left(rank)) report_departure(rank, situation.where());
  if (health_.failed()) health_.raise_failure();
}

void Endpoint::check_for_dead(int peer, Situation& situation) {
  if (peer >= 0 && elsewhere(peer)) relay_->probe(peer);
  found_dead(std::views::iota(0, ranks()), peer, situation);
}

// Of several, one that had reported no other failure before died first.
template <class Ranks>
bool Endpoint::found_dead(const Ranks& ranks, int peer, Situation& situation) {
  int rank = -1;
  for (int each : ranks)
    if (health_.died(each) && (rank < 0 || (health_.reported_by(rank) && !health_.reported_by(each)))) rank = each;
  if (rank < 0) return false;
  auto text = name(rank) + " " + health_.how_died(rank) + " while " + name(rank_) + " waited for " +
              (rank == peer ? "it"
               : peer < 0   ? "its peers"
                            : name(peer)) +
              " in " + situation.where();
  auto reported = health_.reported_by(rank);
  health_.report_failure(Failure::died, rank, with_cause(text, reported), reported ? reported->culprit : -1);
  return true;
}

void Endpoint::fail_if_bereft(Situation& situation) {
  if (auto cause = health_.why_leaving()) health_.tell_cause(*cause);
  found_dead(std::views::iota(0, ranks()), -1, situation);
  for (int peer = 0; peer < ranks(); peer++)
    if (peer != rank_ && health_.left(peer) && health_.by_error(peer)) report_departure(peer, situation.where());
  if (health_.failure()) health_.hear();
}

void Endpoint::report_departure(int rank, const std::string& where) {
  if (rank < 0 && ranks() == 2) rank = 1 - rank_;
  auto who = rank < 0 ? std::string("every other rank") : name(rank);
  std::optional<FirstCause> cause;
  if (rank >= 0) {
    cause = health_.cause_of_leaving(rank);
  } else {
    rank = (rank_ + 1) % ranks();
    cause = first_cause_of_leaving();
    if (!cause) cause = health_.cause_of_leaving(rank);
  }
  auto text = who + " left the group while " + name(rank_) + " waited for it in " + where;
  int culprit = cause ? cause->culprit : -1;
  health_.report_failure(Failure::died, health_.missed(culprit).value_or(rank), with_cause(text, cause), culprit);
}

// The first that members have reported which have left.
std::optional<FirstCause> Endpoint::first_cause_of_leaving() const {
  std::optional<FirstCause> first;
  for (int peer = 0; peer < ranks(); peer++) {
    if (peer == rank_ || !health_.left(peer)) continue;
    auto reported = health_.reported_by(peer);
    if (reported && (!first || reported->since_ns < first->since_ns)) first = reported;
  }
  return first;
}

// Why `peer` (-1: any) has not come: a failure that it reported, the rank at the end of a chain of waits, or why others
// have left.
std::optional<FirstCause> Endpoint::cause_of_delay(int peer) const {
  if (peer == rank_) return {};
  auto& family = health_.family();
  if (peer >= 0) {
    if (auto reported = health_.reported_by(peer)) return reported;
  }
  auto waits = health_.waits();
  if (!waits) return {};
  std::optional<ChainOfWaits> found;
  for (int rank = 0; rank < ranks(); rank++) {
    if (rank == rank_ || (peer >= 0 && rank != peer) || health_.left(rank)) continue;
    auto chain = chain_of_waits(*waits, health_.number(rank_), health_.number(rank), segment_.number(),
                                [&](int number) { return family.stopped(number); });
    if (peer < 0 && (chain.circle || (found && found->all.back() != chain.all.back()))) return {};
    if (!found || chain.all.size() > found->all.size()) found = chain;
  }
  bool known = found && (found->stopped || !found->last_waits_in.empty());
  if (!found || (found->all.size() == 1 && !known && peer >= 0)) return first_cause_of_leaving();
  if (peer < 0 && !found->last_waits_in.empty())  // it is no later than this rank: missed are those that have left
    if (auto left = first_cause_of_leaving()) return left;
  std::string way;
  for (std::size_t k = 0; k + 1 < found->all.size(); k++) {
    way += (k ? ", " : " (") + family.name(found->all[k]) + " waits for " + family.name(found->all[k + 1]);
    if (found->circle || found->where[k].ends_with(')')) way += " in " + found->where[k];
  }
  if (!way.empty()) way += ")";
  if (found->circle) return FirstCause{-1, "they wait for each other" + way};
  auto last = found->all.back();
  auto why = found->stopped                 ? ": its process is stopped"
             : found->last_waits_in.empty() ? ""
                                            : ": it waits in " + found->last_waits_in;
  return FirstCause{last, family.name(last) + " did not come" + why + way};
}

}  // namespace ringtree
