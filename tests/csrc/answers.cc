// Answers to synchronous sends, of a rank that makes blocking calls alone, to a peer whose pipe is full of its
// messages: an answer goes on by itself when there is room, and before its rank leaves. The receiver is a rank of this
// process; what its peer sends and takes is done in their memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "group/group.h"

namespace {

using ringtree::Group;
using ringtree::Operation;

constexpr int tag = 3, filling = 4, slots = 2, uint8 = static_cast<int>(ringtree::Dtype::uint8);
constexpr std::int64_t patience_ns = 10'000'000'000;

struct Patience : ringtree::Hooks {};

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "answers: %s\n", what);
  std::abort();
}

struct Ranks {
  ringtree::Layout layout{2, slots, 1024};
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, layout.total), std::free};
  ringtree::Segment segment{(std::memset(memory.get(), 0, layout.total), memory.get()), layout};
  std::unique_ptr<Group> receiver;
  ringtree::Outgoing<ringtree::Piece> to_receiver = segment.pipe_out(0, 1);
  ringtree::Incoming<ringtree::Piece> from_receiver = segment.pipe_in(1, 0);
  Patience hooks;
  std::byte byte{};

  // The receiver has answered a synchronous send, for which its pipe has no room.
  Ranks() {
    ringtree::Endpoint::Options endpoint;
    endpoint.timeout_s = 5;
    receiver = std::make_unique<Group>(memory.get(), 1, 2, Group::Options{slots, 1024, true, endpoint});
    segment.open(to_receiver, 0, 1);
    for (std::size_t k = 0; k < layout.pieces; k++) {
      Operation send{true, 0, filling, &byte, 1, uint8};
      receiver->exchange({&send, 1}, hooks);
    }
    auto& piece = to_receiver.blank();
    piece.total = piece.nbytes = 1;
    piece.tag = tag;
    piece.dtype = uint8;
    piece.first = 2;
    to_receiver.publish();
    Operation receive{false, 0, tag, &byte, 1, uint8};
    receiver->exchange({&receive, 1}, hooks);
  }

  // Takes what comes until the answer does; the peer rings nobody.
  bool answered() {
    for (auto until_ns = ringtree::now_ns() + patience_ns; ringtree::now_ns() < until_ns; sched_yield())
      while (from_receiver.ready()) {
        auto found = from_receiver.take().tag;
        from_receiver.release();
        if (found == ringtree::first_acknowledgement + tag) return true;
      }
    return false;
  }
};

void goes_on_by_itself() {
  Ranks ranks;
  expect(ranks.answered(), "an answer comes as soon as there is room, whatever its rank does then");
}

void comes_before_its_rank_leaves() {
  Ranks ranks;
  std::thread leaves([&] { ranks.receiver->close(); });
  usleep(20'000);
  bool answered = ranks.answered();
  leaves.join();
  expect(answered, "an answer comes before its rank leaves");
}

void holds_nobody_up_for_ever() {
  Ranks ranks;
  auto begun_ns = ringtree::now_ns();
  ranks.receiver->close();
  expect(ringtree::now_ns() - begun_ns < patience_ns, "a rank leaves a peer that takes nothing");
}

}  // namespace

int main() {
  goes_on_by_itself();
  comes_before_its_rank_leaves();
  holds_nobody_up_for_ever();
  std::puts("answers: those for which there is no room go on by themselves, and before their rank leaves");
}
