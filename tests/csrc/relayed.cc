// Ranks of two hosts that a bridge joins over TCP on the loopback: reductions, broadcasts, messages and one-sided
// access of many sizes, one behind another. Each host is a segment of its own; its ranks are threads. Run under
// sanitizers.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "group/group.h"
#include "loopback.h"
#include "programs.h"
#include "wires/tcp.h"

namespace {

using ringtree::Group;

constexpr int ranks = 3, slots = 8;
constexpr std::size_t slot_bytes = 4096, window_bytes = 1 << 20;
const std::vector<int> host_of = {0, 0, 1};

// Every rank's sum of what all pass in.
void all_reduce(Group& group, const programs::Program& program, std::vector<int>& data) {
  ringtree::Hooks hooks;
  const auto chunks = program.chunks;
  std::vector<std::int64_t> sizes, offsets;
  const auto count = static_cast<std::int64_t>(data.size());
  for (int c = 0; c < chunks; c++) {
    offsets.push_back(count * c / chunks);
    sizes.push_back(count * (c + 1) / chunks - count * c / chunks);
  }
  ringtree::Binding binding;
  binding.sizes = sizes;
  binding.input_offsets = binding.output_offsets = offsets;
  binding.window = slot_bytes / sizeof(int);
  binding.dtype = static_cast<int>(ringtree::Dtype::int32);
  binding.count = static_cast<std::uint64_t>(count);
  binding.op = static_cast<int>(ringtree::Op::sum);
  binding.collective = "all_reduce";
  std::vector<int> out(data.size());
  auto plan = group.prepare(program.encoded(), binding);
  group.run(plan, reinterpret_cast<std::byte*>(data.data()), reinterpret_cast<std::byte*>(out.data()), hooks);
  data = out;
}

// Whether all calls of a rank had the results they must have.
bool calls(Group& group, int rank, int turns) {
  bool right = true;
  for (int turn = 0; turn < turns; turn++) {
    const int count = std::vector<int>{1, 7, 50, 500, 1500, 7000}[turn % 6];
    std::vector<int> data(count, turn + rank);
    all_reduce(group,
               turn % 3 == 0   ? programs::one_shot(rank, ranks)
               : turn % 3 == 1 ? programs::two_shot(rank, ranks)
                               : programs::ring(rank, ranks),
               data);
    right &= data == std::vector<int>(count, ranks * turn + 3);
    std::vector<int> sent(std::min(count, 1000), rank == turn % ranks ? turn : -1);
    programs::broadcast(group, rank, ranks, turn % ranks, sent);
    right &= sent == std::vector<int>(sent.size(), turn);
    ringtree::Hooks hooks;
    std::vector<int> out(count, rank), in(count);
    auto at = [](std::vector<int>& of) { return reinterpret_cast<std::byte*>(of.data()); };
    const auto nbytes = count * sizeof(int);
    const int dtype = static_cast<int>(ringtree::Dtype::int32);
    ringtree::Operation both[] = {{true, (rank + 1) % ranks, turn, at(out), nbytes, dtype},
                                  {false, (rank + ranks - 1) % ranks, turn, at(in), nbytes, dtype}};
    group.exchange(both, hooks);
    right &= in == std::vector<int>(count, (rank + ranks - 1) % ranks);
  }
  return right;
}

// The same for one-sided access: every rank writes to the next, and reads what it wrote there.
bool accesses(Group& group, int rank, int turns, std::byte* shares) {
  const int window = group.add_window(shares, window_bytes);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  ringtree::Hooks hooks;
  std::vector<int> none(1);
  all_reduce(group, programs::one_shot(rank, ranks), none);  // all have added the window
  bool right = true;
  for (int turn = 0; turn < turns; turn++) {
    const auto count = std::vector<std::size_t>{1, 7, 500, 3000, 100'000}[turn % 5];
    std::vector<int> data(count, turn + rank), back(count);
    group.put(window, 0, next, std::as_bytes(std::span(data)), hooks);
    group.signals().send(next, turn % 8);
    group.signals().wait(before, turn % 8, 1, 60, hooks);
    auto own = reinterpret_cast<int*>(group.in_window(window, rank, 0, count * sizeof(int)));
    right &= std::vector<int>(own, own + count) == std::vector<int>(count, turn + before);
    group.get(window, 0, next, std::as_writable_bytes(std::span(back)), hooks);
    right &= back == data;
    group.signals().send(before, (turn + 1) % 8);  // what it wrote was read
    group.signals().wait(next, (turn + 1) % 8, 1, 60, hooks);
  }
  all_reduce(group, programs::one_shot(rank, ranks), none);  // nobody leaves while another reads from it
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 60;
  ringtree::Layout layout(ranks, slots, slot_bytes);
  std::vector<std::unique_ptr<void, decltype(&std::free)>> memory;
  std::vector<std::vector<std::byte>> windows;
  for (int host = 0; host < 2; host++) {
    memory.emplace_back(std::aligned_alloc(4096, layout.total), std::free);
    std::memset(memory.back().get(), 0, layout.total);
    windows.emplace_back(ranks * window_bytes);
  }
  std::vector<int> listeners;
  std::vector<ringtree::TcpWire::Peer> peers(ranks);
  for (auto& peer : peers) {
    peer.host = "127.0.0.1";
    listeners.push_back(loopback::listening(peer.port));
  }
  std::vector<std::thread> threads;
  std::vector<int> right(ranks);
  for (int rank = 0; rank < ranks; rank++)
    threads.emplace_back([&, rank] {
      ringtree::TcpWire::Options wire{ringtree::FileDescriptor(listeners[rank]), 1, peers, 3, false};
      ringtree::Network network{host_of, [&wire](int rank, ringtree::Wire::Sink& sink) {
                                  return std::make_unique<ringtree::TcpWire>(rank, std::move(wire), sink);
                                }};
      ringtree::Endpoint::Options endpoint;
      endpoint.timeout_s = 60;
      endpoint.oversubscribed = true;
      Group::Options options{slots, slot_bytes, true, endpoint};
      options.network = network;
      Group group(memory[host_of[rank]].get(), rank, ranks, options);
      try {
        right[rank] = calls(group, rank, turns) && accesses(group, rank, turns, windows[host_of[rank]].data());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      group.close();
    });
  for (auto& thread : threads) thread.join();
  for (int rank = 0; rank < ranks; rank++)
    if (!right[rank]) return std::fprintf(stderr, "rank %d: wrong\n", rank), EXIT_FAILURE;
  std::printf("%d turns of calls, messages and accesses between ranks of two hosts\n", turns);
}
