// A thread that has found the group open, and exchanges messages only after another has closed it: the arrays of what
// was under way are gone by then, and nothing may be written into them. Ranks are threads' endpoints of one process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "group/group.h"

namespace {

using ringtree::Exchange;
using ringtree::Group;
using ringtree::Operation;

constexpr int kept = 1, other = 2, slots = 2;  // tags; staging slots
constexpr std::byte before{0xA5};

struct Patience : ringtree::Hooks {};

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "closed_exchange: %s\n", what);
  std::abort();
}

template <class Action>
bool is_closed(Action action) {
  try {
    action();
  } catch (const ringtree::Error& error) {
    return error.kind == ringtree::Failure::poisoned;
  }
  return false;
}

struct Ranks {
  ringtree::Layout layout{2, slots, 1024};
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, layout.total), std::free};
  std::unique_ptr<Group> sender, receiver;

  Ranks() {
    std::memset(memory.get(), 0, layout.total);
    sender = join(0);
    receiver = join(1);
  }
  std::unique_ptr<Group> join(int rank) {
    ringtree::Endpoint::Options endpoint;
    endpoint.timeout_s = 5;
    return std::make_unique<Group>(memory.get(), rank, 2, Group::Options{slots, 1024, true, endpoint});
  }
};

Operation receive(int tag, std::vector<std::byte>& into) {
  return {false, 0, tag, into.data(), into.size(), static_cast<int>(ringtree::Dtype::uint8)};
}

void nothing_is_written_after_the_end() {
  Ranks ranks;
  Patience hooks;
  std::vector<std::byte> freed(64, before), unused(64), sent(64, std::byte{1});
  auto& late = ranks.receiver->messages();  // this thread has passed the group's check
  auto number = ranks.receiver->post(receive(kept, freed));
  ranks.receiver->close();
  Operation send{true, 1, kept, sent.data(), sent.size(), static_cast<int>(ringtree::Dtype::uint8)};
  ranks.sender->exchange({&send, 1}, hooks);

  auto more = receive(other, unused);
  expect(is_closed([&] { late.run({&more, 1}, 1, hooks); }), "run() finds the exchange closed");
  expect(is_closed([&] { late.post(receive(other, unused)); }), "post() finds the exchange closed");
  late.test(number);
  ringtree::Background::advance_all();  // a wait of another group helps those that it has heard of
  auto is_untouched = std::ranges::count(freed, before) == static_cast<std::ptrdiff_t>(freed.size());
  expect(is_untouched, "no byte is written into the array of a receive that was under way");
}

}  // namespace

int main() {
  nothing_is_written_after_the_end();
  std::puts("closed_exchange: who comes after the end finds the group closed, and writes nothing");
}
