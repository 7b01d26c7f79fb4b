// A group of ranks that are threads, with arrays in a region and others, for tests that look where messages lie.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "group/group.h"
#include "programs.h"

namespace programs {

inline constexpr int slots = 8;
inline constexpr std::size_t slot_bytes = 16384;
inline constexpr std::int64_t most = 40'000;  // elements of an array

inline void* shared(std::size_t nbytes) {
  auto at = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? std::abort(), nullptr : at;
}

[[noreturn]] inline void wrong(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), why.c_str());
  std::exit(EXIT_FAILURE);
}

// Ranks, each with two arrays in a region and two of its own.
struct World {
  explicit World(int n)
      : ranks(n),
        layout(n, slots, slot_bytes),
        memory(shared(layout.total)),
        region_bytes(2 * most * sizeof(int) * n),
        region(static_cast<int*>(shared(region_bytes))),
        own(static_cast<int*>(shared(region_bytes))) {}
  ~World() {
    munmap(memory, layout.total);
    munmap(region, region_bytes);
    munmap(own, region_bytes);
  }

  int* array(int rank, int which, bool in_region) const {
    return (in_region ? region : own) + (2 * rank + which) * most;
  }

  void run(const std::function<void(ringtree::Group&, int)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++)
      threads.emplace_back([&, rank] {
        ringtree::Endpoint::Options endpoint;
        endpoint.timeout_s = 60;
        endpoint.oversubscribed = true;
        ringtree::Group group(memory, rank, ranks, {slots, slot_bytes, true, endpoint});
        ringtree::Hooks hooks;
        group.add_region({reinterpret_cast<std::byte*>(region), region_bytes}, hooks);
        work(group, rank);
        group.close();
      });
    for (auto& thread : threads) thread.join();
  }

  // The rank in whose arrays that message of a lane lies; -1: in none.
  int whose(int from, int to, std::uint64_t number) const {
    ringtree::Segment segment(memory, layout);
    auto& descriptor = segment.lane_in(from, to).message(number);
    if (descriptor.number.load() != number) wrong("a lane", "has had another number of messages");
    if (descriptor.protocol() != ringtree::Protocol::zero_copy) return -1;
    return static_cast<int>(descriptor.location.offset / (2 * most * sizeof(int)));
  }
  // Whether it lies in an array of its receiver.
  bool placed(int from, int to, std::uint64_t number) const { return whose(from, to, number) == to; }

  int ranks;
  ringtree::Layout layout;
  void* memory;
  std::size_t region_bytes;
  int *region, *own;
};

inline std::shared_ptr<ringtree::PreparedProgram> bound(ringtree::Group& group, const Program& program,
                                                        std::int64_t count, std::int64_t window, bool average = false) {
  std::vector<std::int64_t> sizes, offsets;
  for (int chunk = 0; chunk < program.chunks; chunk++) {
    offsets.push_back(count * chunk / program.chunks);
    sizes.push_back(count * (chunk + 1) / program.chunks - offsets.back());
  }
  ringtree::Binding b;
  b.sizes = sizes;
  b.input_offsets = b.output_offsets = offsets;
  b.window = window;
  b.dtype = static_cast<int>(ringtree::Dtype::int32);
  b.op = static_cast<int>(average ? ringtree::Op::avg : ringtree::Op::sum);
  b.count = count;
  b.collective = "all_reduce";
  return group.prepare(program.encoded(), b);
}

}  // namespace programs
