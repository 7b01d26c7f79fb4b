// A message that both of its ends copy, a block at a time: the receiver reads from the front, the sender writes from
// the back, and both are done where they meet (a cooperative rendezvous; Chakraborty, Bayatpour, Hashmi, Subramoni and
// Panda, SC 2018). A sender that would wait for its receiver halves the time at best.
//
// There is one such message of a lane at a time. The receiver offers its target; each end claims blocks in one word.
// Three orders are all there is: of the offer, so that the sender writes where the receiver wants it, and after what
// the receiver did there; of the blocks written, so that the receiver sees their bytes; of the lane, for the message
// itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ringtree {

template <class Sync>
class CooperativeCopy {
 public:
  using Word = typename Sync::template atomic<std::uint64_t>;

  // In memory of both, zero at first.
  struct Words {
    Word claims;   // the message's number, the first block that nobody has claimed, and the one behind the last
    Word target;   // the address in the receiver's process
    Word written;  // blocks that the sender has done with, of all messages
    Word refused;  // the number of the last message of which the sender could not write a block
  };

  static constexpr std::size_t block = 64 << 10;  // bytes
  static constexpr std::uint32_t least = 8;       // blocks of a message that is worth it
  static constexpr std::uint32_t least_left = 4;  // blocks; with fewer the sender does not begin again

  // The blocks of a message that both ends copy, or 0.
  static std::uint32_t blocks_of(std::size_t nbytes) {
    auto blocks = (nbytes + block - 1) / block;
    return nbytes < least * block || blocks > 0xffff ? 0 : static_cast<std::uint32_t>(blocks);
  }
  struct Blocks {
    std::uint32_t first, end;
  };

  explicit CooperativeCopy(Words& words) : words_(&words) {}

  // The receiver's: message `number` (modulo 2^32) of so many blocks is wanted at `target`.
  void offer(std::uint32_t number, std::uintptr_t target, std::uint32_t blocks) {
    number_ = number;
    blocks_ = blocks;
    written_before_ = words_->written.load(std::memory_order_relaxed);
    words_->target.store(target, std::memory_order_relaxed);
    words_->claims.store(word({number, 0, blocks}), Sync::publish);  // pairs with claim_last()
  }
  // The receiver claims blocks; none: all are claimed.
  std::optional<Blocks> claim_first() {
    for (auto seen = words_->claims.load(std::memory_order_relaxed);;) {
      auto claims = claims_of(seen);
      if (!is_mine(claims) || claims.first == claims.end) return {};
      auto end = claims.first + share(claims);
      if (exchange(seen, {claims.number, end, claims.end})) return Blocks{claims.first, end};
    }
  }
  // The receiver takes back what nobody has claimed; the first block that the sender has. More than once, if it likes.
  std::uint32_t withdraw() {
    for (auto seen = words_->claims.load(std::memory_order_relaxed);;) {
      auto claims = claims_of(seen);
      if (!is_mine(claims)) return blocks_;
      if (claims.first == claims.end || exchange(seen, {claims.number, claims.end, claims.end})) return claims.end;
    }
  }
  // Whether the sender has done with `blocks` of the message.
  bool wrote(std::uint64_t blocks) const {
    return words_->written.load(Sync::take_back) - written_before_ == blocks;  // pairs with done()
  }
  bool was_refused(std::uint32_t number) const { return words_->refused.load(std::memory_order_relaxed) == number; }

  // The sender's: whether its message of that number is offered, and enough of it left.
  bool offered(std::uint32_t number) const {
    auto claims = claims_of(words_->claims.load(std::memory_order_relaxed));
    return claims.number == number && claims.first + least_left <= claims.end;
  }
  // The sender claims blocks of it.
  std::optional<Blocks> claim_last(std::uint32_t number) {
    for (auto seen = words_->claims.load(Sync::observe);;) {  // pairs with offer()
      auto claims = claims_of(seen);
      if (claims.number != number || claims.first >= claims.end) return {};
      auto first = claims.end - share(claims);
      if (exchange(seen, {number, claims.first, first})) return Blocks{first, claims.end};
    }
  }
  // Where the receiver wants the message of which the sender has claimed blocks.
  std::uintptr_t target() const { return static_cast<std::uintptr_t>(words_->target.load(std::memory_order_relaxed)); }
  // The sender has written the blocks that it claimed, or could not.
  void done(std::uint32_t number, const Blocks& blocks, bool written) {
    if (!written) words_->refused.store(number, std::memory_order_relaxed);
    auto before = words_->written.load(std::memory_order_relaxed);
    words_->written.store(before + blocks.end - blocks.first, Sync::give_back);  // pairs with wrote()
  }

 private:
  struct Claims {
    std::uint32_t number, first, end;
  };
  // Whatever somebody has written into the word, the receiver stays within its message.
  bool is_mine(const Claims& claims) const {
    return claims.number == number_ && claims.first <= claims.end && claims.end <= blocks_;
  }
  static std::uint32_t share(const Claims& claims) { return (claims.end - claims.first + 1) / 2; }
  static std::uint64_t word(const Claims& claims) {
    return std::uint64_t{claims.number} << 32 | claims.first << 16 | claims.end;
  }
  static Claims claims_of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 16 & 0xffff),
            static_cast<std::uint32_t>(word & 0xffff)};
  }
  // Where it fails, `seen` is what is there.
  bool exchange(std::uint64_t& seen, const Claims& to) {
    return words_->claims.compare_exchange_strong(seen, word(to), Sync::observe, Sync::observe);
  }

  Words* words_;
  std::uint32_t number_ = 0, blocks_ = 0;  // offered
  std::uint64_t written_before_ = 0;
};

}  // namespace ringtree
