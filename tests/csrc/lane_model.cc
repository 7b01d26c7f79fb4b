// The lane's own code (csrc/lanes/lane.h), and slots behind it, through every interleaving and every value that weak
// memory allows; and with the orders weakened one by one, to see that the checker would notice.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lanes/cooperative_copy.h"
#include "lanes/lane.h"
#include "weak_memory.h"

namespace {

using weak::Cell;
using weak::Checker;

constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release;

template <std::memory_order Publish, std::memory_order Observe, std::memory_order GiveBack, std::memory_order TakeBack>
struct Sync {
  template <class T>
  using atomic = weak::Atomic<T>;
  static constexpr auto publish = Publish, observe = Observe, give_back = GiveBack, take_back = TakeBack;
};
using Right = Sync<release, acquire, release, acquire>;
using WeakPublish = Sync<relaxed, acquire, release, acquire>;
using WeakObserve = Sync<release, relaxed, release, acquire>;
using WeakGiveBack = Sync<release, acquire, relaxed, acquire>;
using WeakTakeBack = Sync<release, acquire, release, relaxed>;

template <class S>
struct Entry {
  typename S::template atomic<std::uint64_t> number;
  Cell payload;
};

template <class S>
struct Lane {
  explicit Lane(int depth) : entries(depth) {}
  ringtree::Sender<S, Entry<S>> sender() { return {taken, entries.data(), entries.size()}; }
  ringtree::Receiver<S, Entry<S>> receiver() { return {taken, entries.data(), entries.size()}; }
  typename S::template atomic<std::uint64_t> taken;
  std::vector<Entry<S>> entries;
};

void until(auto ready) {
  while (!ready()) Checker::instance()->park();
}

// A sender and a receiver; the receiver holds up to `held` messages before it gives the first back. `slack` is a bug:
// messages the sender thinks there is room for beyond what there is.
template <class S>
auto stream(int depth, int messages, int held, int slack = 0) {
  return [=](Checker& checker) {
    auto lane = std::make_shared<Lane<S>>(depth);
    checker.thread([=] {
      auto out = ringtree::Sender<S, Entry<S>>(lane->taken, lane->entries.data(), depth + slack);
      for (int k = 1; k <= messages; k++) {
        until([&] { return out.room(); });
        lane->entries[(k - 1) % depth].payload.write(k);
        if (slack)
          lane->entries[(k - 1) % depth].number.store(k, S::publish);
        else
          out.publish();
      }
    });
    checker.thread([=] {
      auto in = lane->receiver();
      for (int k = 1; k <= messages; k++) {
        until([&] { return in.ready(); });
        Checker::instance()->expect(in.take().payload.read() == k, "a wrong message");
        if (static_cast<int>(in.held()) >= held || k == messages)
          while (in.held() > 0) in.release();
      }
    });
  };
}

// A sender with one slot, signalled to `receivers`, rewritten when all have released it. `careless` is a bug: it asks
// only the last of them.
template <class S>
auto slot(int receivers, int rounds, bool careless = false) {
  return [=](Checker& checker) {
    auto staging = std::make_shared<Cell>();
    auto lanes = std::make_shared<std::vector<std::unique_ptr<Lane<S>>>>();
    for (int r = 0; r < receivers; r++) lanes->push_back(std::make_unique<Lane<S>>(2));
    checker.thread([=] {
      std::vector<ringtree::Sender<S, Entry<S>>>& out = *new std::vector<ringtree::Sender<S, Entry<S>>>;
      for (auto& lane : *lanes) out.push_back(lane->sender());
      for (int k = 1; k <= rounds; k++) {
        for (int r = careless ? receivers - 1 : 0; r < receivers; r++) until([&] { return out[r].released(k - 1); });
        staging->write(k);
        for (auto& lane : out) {
          until([&] { return lane.room(); });
          lane.publish();
        }
      }
      delete &out;
    });
    for (int r = 0; r < receivers; r++)
      checker.thread([=] {
        auto in = (*lanes)[r]->receiver();
        for (int k = 1; k <= rounds; k++) {
          until([&] { return in.ready(); });
          in.take();
          Checker::instance()->expect(staging->read() == k, "a wrong slot");
          in.release();
        }
      });
  };
}

template <class S>
struct Multicast {
  Multicast(int receivers, int depth) : taken(receivers), entries(depth) {}
  // One that asks only the receivers from `first` on.
  ringtree::Sender<S, Entry<S>, ringtree::GivenBackByAll<S>> sender(int first = 0) {
    ringtree::GivenBackByAll<S> back;
    for (auto count = taken.begin() + first; count != taken.end(); ++count) back.taken.push_back(&*count);
    return {back, entries.data(), entries.size()};
  }
  ringtree::Receiver<S, Entry<S>> receiver(int r) { return {taken[r], entries.data(), entries.size()}; }
  std::vector<typename S::template atomic<std::uint64_t>> taken;
  std::vector<Entry<S>> entries;
};

// Every receiver takes so many messages, and reads each by `read(number, entry)` before it gives it back.
template <class S>
void receive_all(Checker& checker, std::shared_ptr<Multicast<S>> memory, int messages, auto read) {
  for (int r = 0; r < static_cast<int>(memory->taken.size()); r++)
    checker.thread([=] {
      auto in = memory->receiver(r);
      for (int k = 1; k <= messages; k++) {
        until([&] { return in.ready(); });
        Checker::instance()->expect(read(k, in.take()) == k, "a wrong message");
        in.release();
      }
    });
}

// A multicast to `receivers`, each with a count of its own. `careless` is a bug: the sender asks only the last of them.
template <class S>
auto multicast(int receivers, int depth, int messages, bool careless = false) {
  return [=](Checker& checker) {
    auto memory = std::make_shared<Multicast<S>>(receivers, depth);
    checker.thread([=] {
      auto& out = *new auto(memory->sender(careless ? receivers - 1 : 0));
      for (int k = 1; k <= messages; k++) {
        until([&] { return out.room(); });
        out.blank().payload.write(k);
        out.publish();
      }
      delete &out;
    });
    receive_all<S>(checker, memory, messages, [](int, auto& entry) { return entry.payload.read(); });
  };
}

// A multicast with two slots, used in turn. Before it takes the one that is its turn, the sender asks for the other.
template <class S>
auto two_slots(int receivers, int messages) {
  return [=](Checker& checker) {
    auto memory = std::make_shared<Multicast<S>>(receivers, 4);
    auto slots = std::make_shared<std::vector<Cell>>(2);
    checker.thread([=] {
      auto& out = *new auto(memory->sender());
      for (int k = 1; k <= messages; k++) {
        if (k > 1) (void)out.released(k - 1);
        if (k > 2) until([&] { return out.released(k - 2); });
        (*slots)[k % 2].write(k);
        out.publish();
      }
      delete &out;
    });
    receive_all<S>(checker, memory, messages, [=](int k, auto&) { return (*slots)[k % 2].read(); });
  };
}

// Two ranks that send to each other and then receive, round after round, with lanes of depth one.
template <class S>
auto both_ways(int rounds, int ahead) {
  return [=](Checker& checker) {
    auto lanes = std::make_shared<std::vector<std::unique_ptr<Lane<S>>>>();
    for (int r = 0; r < 2; r++) lanes->push_back(std::make_unique<Lane<S>>(1));
    for (int r = 0; r < 2; r++)
      checker.thread([=] {
        auto out = (*lanes)[r]->sender();
        auto in = (*lanes)[1 - r]->receiver();
        for (int k = 1; k <= rounds; k += ahead) {
          for (int a = 0; a < ahead; a++) {
            until([&] { return out.room(); });
            out.blank().payload.write(k + a);
            out.publish();
          }
          for (int a = 0; a < ahead; a++) {
            until([&] { return in.ready(); });
            Checker::instance()->expect(in.take().payload.read() == k + a, "a wrong message");
            in.release();
          }
        }
      });
  };
}

// A rank sends its cell to a reader, and then to a peer, to which it grants the cell if the reader has given it back:
// the peer reads it, writes there, and sends that back (interpreter/placing.cc). `careless` is a bug: it asks no
// reader.
template <class S>
auto granted(int rounds, bool careless = false) {
  return [=](Checker& checker) {
    auto cell = std::make_shared<Cell>();
    auto lanes = std::make_shared<std::vector<std::unique_ptr<Lane<S>>>>();
    for (int k = 0; k < 3; k++) lanes->push_back(std::make_unique<Lane<S>>(2));
    checker.thread([=] {
      auto reader = (*lanes)[0]->sender(), peer = (*lanes)[1]->sender();
      auto back = (*lanes)[2]->receiver();
      for (int k = 1; k <= rounds; k++) {
        cell->write(k);
        reader.publish();
        bool grants = careless || reader.released(k);
        peer.blank().payload.write(grants);
        peer.publish();
        until([&] { return back.ready(); });
        back.take();
        Checker::instance()->expect(cell->read() == (grants ? -k : k), "another cell than was sent back");
        back.release();
        until([&] { return reader.released(k); });
      }
    });
    checker.thread([=] {
      auto in = (*lanes)[0]->receiver();
      for (int k = 1; k <= rounds; k++) {
        until([&] { return in.ready(); });
        in.take();
        Checker::instance()->expect(cell->read() == k, "a wrong cell");
        in.release();
      }
    });
    checker.thread([=] {
      auto in = (*lanes)[1]->receiver();
      auto out = (*lanes)[2]->sender();
      for (int k = 1; k <= rounds; k++) {
        until([&] { return in.ready(); });
        if (in.take().payload.read()) cell->write(-cell->read());
        in.release();
        out.publish();
      }
    });
  };
}

// A receiver that copies messages of `blocks` together with its sender, each from and to cells that it has used before,
// over a lane that is right. `careless` is a bug: the receiver does not wait for the sender's blocks. `fails`: it gives
// the last message up.
template <class S>
auto cooperative(int blocks, int messages, bool careless = false, bool fails = false) {
  using Copy = ringtree::CooperativeCopy<S>;
  struct Memory {
    typename Copy::Words words;
    std::vector<Cell> source, target;
  };
  return [=](Checker& checker) {
    auto memory = std::make_shared<Memory>();
    memory->source.resize(blocks);
    memory->target.resize(blocks);
    auto lane = std::make_shared<Lane<Right>>(1);
    auto copy_blocks = [=](typename Copy::Blocks blocks) {
      for (auto k = blocks.first; k < blocks.end; k++) memory->target[k].write(memory->source[k].read());
    };
    checker.thread([=] {
      auto out = lane->sender();
      Copy copy(memory->words);
      for (int number = 1; number <= messages; number++) {
        until([&] { return out.released(number - 1); });
        for (int k = 0; k < blocks; k++) memory->source[k].write(10 * number + k);
        out.publish();
        for (int k = 0; k < blocks; k++) {  // at any time
          auto mine = copy.claim_last(number);
          if (!mine) break;
          copy_blocks(*mine);
          copy.done(number, *mine, true);
        }
      }
    });
    checker.thread([=] {
      auto in = lane->receiver();
      Copy copy(memory->words);
      for (int number = 1; number <= messages; number++) {
        for (auto& cell : memory->target) cell.write(0);
        until([&] { return in.ready(); });
        in.take();
        copy.offer(number, 0, blocks);
        bool gives_up = fails && number == messages;
        while (auto mine = gives_up ? std::nullopt : copy.claim_first()) copy_blocks(*mine);
        std::uint64_t theirs = blocks - copy.withdraw();
        until([&] { return careless || copy.wrote(theirs); });
        for (int k = 0; k < blocks && !gives_up; k++)
          Checker::instance()->expect(memory->target[k].read() == 10 * number + k, "a wrong block");
        for (auto& cell : memory->target) cell.write(-1);
        in.release();
      }
    });
  };
}

int failures = 0;

void check(const char* name, const std::function<void(Checker&)>& scenario, const char* expected = "") {
  failures += !weak::check(name, scenario, expected);
}

template <class S>
void weakened(const char* what) {
  std::printf("%s relaxed:\n", what);
  check("  a lane of depth 2", stream<S>(2, 4, 1), "a data race");
  check("  a slot and two receivers", slot<S>(2, 2), "a data race");
  check("  a multicast of depth 1", multicast<S>(2, 1, 2), "a data race");
  check("  a cell that a peer writes by a grant", granted<S>(2), "a data race");
  check("  a message that both ends copy", cooperative<S>(2, 1), "a data race");
}

}  // namespace

int main() {
  check("a lane of depth 2, 6 messages", stream<Right>(2, 6, 1));
  check("a lane of depth 4, 6 messages, 2 held at a time", stream<Right>(4, 6, 2));
  check("a lane of depth 1, 6 messages", stream<Right>(1, 6, 1));
  check("one slot, one receiver, 6 times", slot<Right>(1, 6));
  check("one slot, two receivers, 3 times", slot<Right>(2, 3));
  check("a multicast of depth 1 to two receivers, 3 messages", multicast<Right>(2, 1, 3));
  check("a multicast of depth 2 to two receivers, 3 messages", multicast<Right>(2, 2, 3));
  check("a multicast with two slots to two receivers, 3 messages", two_slots<Right>(2, 3));
  check("two ranks send to each other, 4 rounds", both_ways<Right>(4, 1));
  check("a cell that a peer writes by a grant, twice", granted<Right>(2));
  check("a message of 3 blocks that both ends copy", cooperative<Right>(3, 1));
  check("2 messages of a block that either end copies", cooperative<Right>(1, 2));
  check("a message of 2 blocks that the receiver gives up", cooperative<Right>(2, 1, false, true));
  weakened<WeakPublish>("Sender::publish");
  weakened<WeakObserve>("Receiver::ready");
  weakened<WeakGiveBack>("Receiver::release");
  weakened<WeakTakeBack>("Sender::refresh");
  check("a sender that counts one place too many", stream<Right>(2, 4, 1, 1), "a data race");
  check("a sender that asks only the last receiver", slot<Right>(2, 2, true), "a data race");
  check("a multicast that asks only the last receiver", multicast<Right>(2, 1, 2, true), "a data race");
  check("a grant that asks no reader", granted<Right>(1, true), "a data race");
  check("a receiver that does not wait for its sender's blocks", cooperative<Right>(2, 1, true), "a data race");
  check("two ranks that send more than a lane holds", both_ways<Right>(2, 2), "a deadlock");
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
