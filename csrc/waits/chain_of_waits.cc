#include "waits/chain_of_waits.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "machine.h"

namespace ringtree {

namespace {

constexpr std::int64_t link_ns = 200'000'000;
constexpr std::int64_t lately_ns = 1'000'000'000;

std::optional<int> awaited_by(const LongWaits& waits, int rank, std::uint64_t memory, std::int64_t now_ns) {
  auto found = waits.of(rank);
  std::erase_if(found, [&](auto& wait) {
    auto long_ns = std::min(link_ns, (wait.deadline_ns - wait.since_ns) / 4);
    return wait.peer < 0 || now_ns < wait.since_ns + long_ns;
  });
  auto first =
      std::ranges::min_element(found, {}, [&](auto& wait) { return std::tuple(wait.memory != memory, wait.since_ns); });
  if (first != found.end()) return first->peer;
  auto last = waits.given_up(rank);
  return last && last->peer >= 0 && now_ns - last->gave_up_ns <= lately_ns ? std::optional(last->peer) : std::nullopt;
}

}  // namespace

ChainOfWaits chain_of_waits(const LongWaits& waits, int me, int first, std::uint64_t memory,
                            const std::function<bool(int)>& stopped) {
  ChainOfWaits chain{{first}};
  auto now = now_ns();
  for (;;) {
    auto last = chain.all.back();
    chain.stopped = stopped(last);
    auto next = chain.stopped ? std::nullopt : awaited_by(waits, last, memory, now);
    if (!next) return chain;
    chain.circle = *next == me || std::ranges::find(chain.all, *next) != chain.all.end();
    chain.all.push_back(*next);
    if (chain.circle) return chain;
  }
}

}  // namespace ringtree
