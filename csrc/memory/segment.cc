#include "memory/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "error.h"
#include "waits/long_waits.h"

namespace ringtree {

namespace {

constexpr std::size_t page = Mapping::page;
constexpr std::size_t spread_budget = std::size_t(8) << 20;     // all outboxes; half of a small last cache
constexpr std::size_t overflows_budget = std::size_t(1) << 30;  // all of them, of address space
constexpr std::size_t longest_overflow = std::size_t(4) << 20;
constexpr std::size_t pipes_budget = std::size_t(32)
                                     << 20;  // all pairs' point-to-point staging, until pieces are least

std::size_t rounded(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

Layout::Layout(int ranks, int slots, std::size_t slot_bytes)
    : ranks(ranks), slots(slots), slot_bytes(rounded(slot_bytes, cache_line)) {
  if (ranks < 1 || ranks > (1 << 17)) throw std::invalid_argument("a group has 1 to 131072 ranks");
  if (slots < 1 || slots > 4096) throw std::invalid_argument("a rank has 1 to 4096 staging slots");
  if (slot_bytes < 1024 || slot_bytes > (std::size_t(1) << 29))
    throw std::invalid_argument("a staging slot has 1 KiB to 512 MiB");
  auto room = ranks == 1 ? 0 : std::min(spread_budget / ranks, 4 * slots * this->slot_bytes);
  outbox_bytes = std::max<std::size_t>(slots * this->slot_bytes, room / (slots * cache_line) * (slots * cache_line));
  depth = std::bit_ceil(std::uint64_t(std::clamp(slots, 8, 64)));
  std::size_t pairs = std::size_t(ranks) * ranks;
  pieces = std::bit_floor(std::clamp<std::size_t>(pipes_budget / (pairs * page), 4, 16));
  piece_bytes = rounded(std::clamp(pipes_budget / (pairs * pieces), page, 16 * page), page);
  lane_bytes = cache_line + depth * sizeof(Descriptor);
  head_bytes = cache_line + pieces * sizeof(Piece);
  pipe_bytes = pieces * piece_bytes;
  members = rounded(sizeof(Header), page);
  facts = rounded(members + ranks * sizeof(Member), cache_line);
  outboxes = rounded(facts + pair_facts * pairs * sizeof(Fact), page);
  lanes = rounded(outboxes + std::size_t(ranks) * outbox_bytes, Mapping::large_page);
  signals = rounded(lanes + pairs * lane_bytes, page);
  heads = rounded(signals + pairs * cache_line, page);
  memo = rounded(heads + pairs * head_bytes, page);
  ballots = rounded(memo + Memo::nbytes, page);
  proposals = rounded(ballots + cache_line + ranks * sizeof(Ballot), page);
  proposal_bytes = rounded((ranks + 63) / 64 * sizeof(ProposalWord), cache_line);
  pipes = rounded(proposals + 2 * ranks * proposal_bytes, page);
  multicasts = rounded(pipes + pairs * pipe_bytes, page);
  multicast_bytes = rounded(depth * sizeof(Descriptor) + ranks * cache_line, page);
  overflows = rounded(multicasts + ranks * multicast_bytes, page);
  auto overflow = std::min(overflows_budget / (std::size_t(ranks) * slots) / page * page, longest_overflow);
  overflow_bytes = overflow > this->slot_bytes && Mapping::can_prefault() ? overflow : 0;
  waits = overflows + std::size_t(ranks) * slots * overflow_bytes;
  total = waits + ranks * LongWaits::page;
}

std::uint64_t Layout::shape() const {
  return (std::uint64_t(ranks) << 45) | (std::uint64_t(slots) << 32) | slot_bytes;
}

Layout Layout::of_shape(std::uint64_t shape) {
  return {static_cast<int>(shape >> 45), static_cast<int>(shape >> 32 & 0x1fff), shape & 0xffffffff};
}

Segment::Segment(int fd, const Layout& layout, int rank, bool lazily, const std::vector<int>& nodes)
    : layout_(layout), rank_(rank) {
  auto reserved = layout.reserved(lazily), at_first = layout.reserved(true);
  mapping_.emplace(fd, layout.total, at_first);
  if (at_first < reserved) mapping_->reserve(fd, {layout.outboxes, layout.outbox_bytes, layout.ranks, nodes}, rank);
  base_ = mapping_->base();
  if (struct stat info; fstat(fd, &info) == 0) number_ = info.st_ino;
  lazy_ = base_ + reserved;
  prefaulted_.resize((layout.total - reserved) / page);
  check_shape();
}

void report_failed_join(int fd, const Layout& layout, int rank, int number, const std::string& text) {
  void* at = mmap(nullptr, layout.members, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return;  // the others find out by their deadline
  auto& poison = static_cast<Header*>(at)->poison;
  std::uint32_t none = 0;
  if (poison.state.compare_exchange_strong(none, 1, std::memory_order_relaxed)) {
    poison.kind = static_cast<std::uint32_t>(Failure::died);
    poison.rank = rank;
    poison.culprit = number;
    poison.since_ns = now_ns();
    std::strncpy(poison.text, text.c_str(), sizeof poison.text - 1);
    poison.state.store(2, std::memory_order_release);  // pairs with Health::raise_failure()
  }
  munmap(at, layout.members);
}

Segment::Segment(void* memory, const Layout& layout)
    : layout_(layout), base_(static_cast<std::byte*>(memory)), lazy_(base_ + layout.total) {
  check_shape();
}

OutgoingToAll Segment::multicast_out(int from) {
  GivenBackByAll<Sync> back;
  for (int to = 0; to < layout_.ranks; to++)
    if (to != from) back.taken.push_back(&multicast_taken(from, to));
  return {std::move(back), reinterpret_cast<Descriptor*>(multicast(from)), layout_.depth, from};
}

// All ranks must have computed the same layout: the first writes it down, the others compare.
void Segment::check_shape() {
  std::uint64_t none = 0, shape = layout_.shape();
  auto& header = this->header();
  if (!header.shape.compare_exchange_strong(none, shape, std::memory_order_relaxed) && none != shape)
    throw std::invalid_argument("the ranks of the group disagree on ranks, slots or slot_bytes");
  none = 0;
  if (!header.magic.compare_exchange_strong(none, magic, std::memory_order_relaxed) && none != magic)
    throw std::invalid_argument("the file descriptor is not a ringtree segment (expected zeroed memory)");
}

void Segment::prefault(std::byte* at, std::size_t nbytes) {
  auto from = static_cast<std::size_t>(at - lazy_);
  auto is_prefaulted = [&](std::size_t p) { return std::atomic_ref(prefaulted_[p]); };
  bool all = true;
  for (auto p = from / page; p * page < from + nbytes; p++)
    all &= is_prefaulted(p).load(std::memory_order_relaxed) != 0;
  if (all) return;
  Mapping::prefault(at, nbytes);
  for (auto p = from / page; p * page < from + nbytes; p++) is_prefaulted(p).store(1, std::memory_order_relaxed);
}

void Segment::open(bool& done, PairFact kind, std::byte* at, std::size_t nbytes, int from, int to) {
  existing(at, nbytes);
  fact(kind, from, to).store(1, std::memory_order_release);  // pairs with Incoming::exists
  done = true;
}

}  // namespace ringtree
