// Messages for which there is no memory: the call that receives one fails, and nothing is written into what its caller
// has given up. The receiver is a rank of this process; what its peer sends is written into their memory piece by
// piece.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "group/group.h"

namespace {

constexpr std::size_t long_message = 20'000;  // of which a piece is less
bool memory_is_full = false;                  // for what is as long as the message

}  // namespace

void* operator new[](std::size_t nbytes) {
  auto at = memory_is_full && nbytes >= long_message ? nullptr : std::malloc(nbytes);
  return at ? at : throw std::bad_alloc();
}
void operator delete[](void* at) noexcept {
  std::free(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  std::free(at);
}

namespace {

using ringtree::Group;
using ringtree::Operation;

constexpr int tag = 3, slots = 2, uint8 = static_cast<int>(ringtree::Dtype::uint8);
constexpr std::byte before{0xA5}, sent{0x11};

// Ends a wait at its first look around.
struct Impatient : ringtree::Hooks {
  void interrupted() override { throw ringtree::Interrupted{}; }
};

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "no_memory: %s\n", what);
  std::abort();
}

template <class Exception, class Action>
bool throws(Action action) {
  try {
    action();
  } catch (const Exception&) {
    return true;
  }
  return false;
}

struct Ranks {
  ringtree::Layout layout{2, slots, 1024};
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, layout.total), std::free};
  std::unique_ptr<ringtree::Segment> segment;
  std::unique_ptr<Group> receiver;
  std::unique_ptr<ringtree::Outgoing<ringtree::Piece>> pipe;

  Ranks() {
    std::memset(memory.get(), 0, layout.total);
    ringtree::Endpoint::Options endpoint;
    endpoint.timeout_s = 5;
    receiver = std::make_unique<Group>(memory.get(), 1, 2, Group::Options{slots, 1024, true, endpoint});
    segment = std::make_unique<ringtree::Segment>(memory.get(), layout);
    pipe = std::make_unique<ringtree::Outgoing<ringtree::Piece>>(segment->pipe_out(0, 1));
    segment->open(*pipe, 0, 1);
  }
  void send(std::size_t from, std::size_t to) {
    auto index = pipe->published() % layout.pieces;
    auto& piece = pipe->blank();
    piece.total = long_message;
    piece.tag = tag;
    piece.dtype = uint8;
    piece.first = from == 0;
    piece.nbytes = static_cast<std::uint32_t>(to - from);
    std::memset(segment->piece_staging(0, 1, index, to - from), static_cast<int>(sent), to - from);
    pipe->publish();
  }
};

Operation receive(std::vector<std::byte>& into) {
  return {false, 0, tag, into.data(), into.size(), uint8};
}

// Its bytes so far cannot be kept for a later receive: the group fails, as they are lost.
void a_receive_that_is_given_up_is_written_no_more() {
  Ranks ranks;
  Impatient hooks;
  std::vector<std::byte> array(long_message, before), other(long_message);
  ranks.send(0, 4096);
  auto operation = receive(array);
  memory_is_full = true;
  expect(throws<ringtree::Interrupted>([&] { ranks.receiver->exchange({&operation, 1}, 1, hooks); }),
         "it is interrupted");
  memory_is_full = false;
  std::ranges::fill(array, before);
  ranks.send(4096, long_message);
  auto later = receive(other);
  expect(throws<ringtree::Error>([&] { ranks.receiver->exchange({&later, 1}, 1, hooks); }), "the group has failed");
  expect(std::ranges::count(array, before) == static_cast<std::ptrdiff_t>(long_message), "no byte comes after the end");
}

void a_message_without_memory_is_there_for_the_next_receive() {
  for (bool comes_first : {true, false}) {
    Ranks ranks;
    Impatient hooks;
    auto whole = [] { return Operation{false, 0, tag, nullptr, 0, uint8, ringtree::Length::any}; };
    if (comes_first) {  // it is kept as one that nobody expected
      expect(!ranks.receiver->messages().probe(0, tag + 1, 0, hooks), "another message is not there");
      ranks.send(0, 4096);
      expect(ranks.receiver->messages().probe(0, tag, 0, hooks).has_value(), "it has begun to arrive");
    } else {
      ranks.send(0, 4096);
    }
    auto refused = whole(), taken = whole();
    memory_is_full = true;
    expect(throws<std::bad_alloc>([&] { ranks.receiver->exchange({&refused, 1}, 1, hooks); }), "there is no memory");
    memory_is_full = false;
    ranks.send(4096, long_message);
    ranks.receiver->exchange({&taken, 1}, 1, hooks);
    expect(taken.nbytes == long_message &&
               std::count(taken.data, taken.data + long_message, sent) == static_cast<std::ptrdiff_t>(long_message),
           "it arrives whole");
  }
}

}  // namespace

int main() {
  a_receive_that_is_given_up_is_written_no_more();
  a_message_without_memory_is_there_for_the_next_receive();
  std::puts("no_memory: a receive without memory fails by itself, and its array is written no more");
}
