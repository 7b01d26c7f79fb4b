#include "waits/chain_of_waits.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "machine.h"

namespace ringtree {

namespace {

constexpr std::int64_t link_ns = 200'000'000;
constexpr std::int64_t lately_ns = 1'000'000'000;

// The rank's wait that counts; one for any rank only where it has no other.
std::optional<WaitRecord> wait_of(const LongWaits& waits, int rank, std::uint64_t memory, std::int64_t now_ns) {
  auto found = waits.of(rank);
  std::erase_if(found, [&](auto& wait) {
    auto long_ns = std::min(link_ns, (wait.deadline_ns - wait.since_ns) / 4);
    return now_ns < wait.since_ns + long_ns;
  });
  auto first = std::ranges::min_element(
      found, {}, [&](auto& wait) { return std::tuple(wait.peer < 0, wait.memory != memory, wait.since_ns); });
  if (first != found.end() && first->peer >= 0) return *first;
  auto last = waits.given_up(rank);
  if (last && now_ns - last->gave_up_ns > lately_ns) last.reset();
  if (last && last->peer >= 0) return last;
  return first == found.end() ? last : std::optional(*first);
}

}  // namespace

ChainOfWaits chain_of_waits(const LongWaits& waits, int me, int first, std::uint64_t memory,
                            const std::function<bool(int)>& stopped) {
  ChainOfWaits chain{{first}};
  auto now = now_ns();
  for (;;) {
    auto last = chain.all.back();
    chain.stopped = stopped(last);
    auto wait = chain.stopped ? std::nullopt : wait_of(waits, last, memory, now);
    if (wait && wait->peer < 0) chain.last_waits_in = wait->where;
    if (!wait || wait->peer < 0) return chain;
    chain.circle = wait->peer == me || std::ranges::find(chain.all, wait->peer) != chain.all.end();
    chain.all.push_back(wait->peer);
    chain.where.push_back(wait->where);
    if (chain.circle) return chain;
  }
}

std::vector<Link> links_of(const LongWaits& waits, int first, std::uint64_t memory, std::size_t most) {
  std::vector<Link> links;
  auto now = now_ns();
  for (int rank = first; rank >= 0 && links.size() < most;) {
    if (std::ranges::find(links, rank, &Link::rank) != links.end()) break;  // a circle
    auto wait = wait_of(waits, rank, memory, now);
    if (!wait) break;
    links.push_back({rank, *wait});
    rank = wait->peer;
  }
  return links;
}

}  // namespace ringtree
