// Programs written by hand, in the form Python encodes them, for ranks that are threads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "group/group.h"
#include "interpreter/prepared_program.h"

namespace programs {

using ringtree::Kind;
using ringtree::Space;

struct At {
  Space space;
  int index, label;
};
inline At input(int chunk) {
  return {Space::input, chunk, chunk};
}
inline At output(int chunk) {
  return {Space::output, chunk, chunk};
}
inline At slot(int reg, int label) {
  return {Space::slot, reg, label};
}
inline At message(int reg, int label) {
  return {Space::message, reg, label};
}

class Program {
 public:
  int chunks = 1, scratch = 0;

  void copy(std::initializer_list<At> targets, At source) { move(Kind::copy, targets, {source}); }
  void reduce(std::initializer_list<At> targets, const std::vector<At>& sources) {
    move(Kind::reduce, targets, sources);
  }
  // `multicast`: the message is part of one, as Python marks it where a rank has two peers or more.
  void signal(int peer, int reg, bool multicast = false) { add(Kind::signal, peer, reg, multicast); }
  void wait(int peer, int reg, bool multicast = false) { add(Kind::wait, peer, reg, multicast); }
  void release(int peer, bool multicast = false) { add(Kind::release, peer, -1, multicast); }
  void send(int peer, int reg, At source) {
    copy({slot(reg, source.label)}, source);
    signal(peer, reg);
  }
  void receive(int peer, At target, bool multicast = false) {
    wait(peer, 0, multicast);
    copy({target}, message(0, target.label));
    release(peer, multicast);
  }
  void receive_reduce(int peer, At target, At own) {
    wait(peer, 0);
    reduce({target}, {own, message(0, target.label)});
    release(peer);
  }
  ringtree::Encoded encoded() const { return {instructions_, operands_}; }

 private:
  void add(Kind kind, int peer, int reg, bool multicast) {
    instructions_.push_back({static_cast<int>(kind), peer, reg, static_cast<int>(operands_.size()), 0, 0, multicast});
  }
  void move(Kind kind, std::initializer_list<At> targets, const std::vector<At>& sources) {
    instructions_.push_back({static_cast<int>(kind), -1, -1, static_cast<int>(operands_.size()),
                             static_cast<int>(targets.size()), static_cast<int>(sources.size()), 0});
    for (auto& side : {std::vector<At>(targets), sources})
      for (auto& a : side) operands_.push_back({static_cast<int>(a.space), a.index, a.label, 1});
  }

  std::vector<ringtree::Encoded::Instruction> instructions_;
  std::vector<ringtree::Encoded::Operand> operands_;
};

// All-reduce: everyone sends everything to everyone.
inline Program one_shot(int rank, int n) {
  Program p;
  p.copy({slot(0, 0)}, input(0));
  for (int k = 1; k < n; k++) p.signal((rank + k) % n, 0, n > 2);
  std::vector<At> terms;
  for (int peer = 0; peer < n; peer++) {
    if (peer != rank) p.wait(peer, peer, n > 2);
    terms.push_back(peer == rank ? input(0) : message(peer, 0));
  }
  p.reduce({output(0)}, terms);
  for (int peer = 0; peer < n; peer++)
    if (peer != rank) p.release(peer, n > 2);
  return p;
}

// All-reduce: rank i adds everyone's chunk i and sends the sum to everyone. Needs n slots.
inline Program two_shot(int rank, int n) {
  Program p;
  p.chunks = n;
  for (int k = 1; k < n; k++) p.send((rank + k) % n, k - 1, input((rank + k) % n));
  std::vector<At> terms;
  for (int peer = 0; peer < n; peer++) {
    if (peer != rank) p.wait(peer, peer);
    terms.push_back(peer == rank ? input(rank) : message(peer, rank));
  }
  p.reduce({output(rank), slot(n, rank)}, terms);
  for (int peer = 0; peer < n; peer++)
    if (peer != rank) p.release(peer);
  for (int k = 1; k < n; k++) p.signal((rank + k) % n, n, n > 2);
  for (int k = 1; k < n; k++) p.receive((rank + n - k) % n, output((rank + n - k) % n), n > 2);
  return p;
}

// All-reduce around a ring, in the output: first copy, then reduce-scatter and all-gather.
inline Program ring(int rank, int n) {
  Program p;
  p.chunks = n;
  int next = (rank + 1) % n, before = (rank + n - 1) % n;
  for (int c = 0; c < n; c++) p.copy({output(c)}, input(c));
  for (int t = 0; t < n - 1; t++) {
    p.send(next, 0, output((rank + n - t) % n));
    int c = (rank + 2 * n - t - 1) % n;
    p.receive_reduce(before, output(c), output(c));
  }
  for (int t = 0; t < n - 1; t++) {
    p.send(next, 0, output((rank + n + 1 - t) % n));
    p.receive(before, output((rank + 2 * n - t) % n));
  }
  return p;
}

// Broadcast down a chain in `pieces` chunks; a rank in the middle forwards from its slot.
inline Program chain(int rank, int n, int root, int pieces) {
  Program p;
  p.chunks = pieces;
  int place = (rank + n - root) % n, next = (rank + 1) % n, before = (rank + n - 1) % n;
  for (int c = 0; c < pieces; c++) {
    if (place == 0) {
      p.copy({output(c), slot(0, c)}, input(c));
    } else {
      p.wait(before, 0);
      if (place < n - 1)
        p.copy({output(c), slot(0, c)}, message(0, c));
      else
        p.copy({output(c)}, message(0, c));
      p.release(before);
    }
    if (place < n - 1) p.signal(next, 0);
  }
  return p;
}

// A broadcast in which the root sends to each.
inline Program flat(int rank, int n, int root) {
  Program p;
  if (rank == root) {
    p.copy({slot(0, 0)}, input(0));
    for (int k = 1; k < n; k++) p.signal((root + k) % n, 0, n > 2);
    p.copy({output(0)}, input(0));
  } else {
    p.receive(root, output(0), n > 2);
  }
  return p;
}

// No data: every rank sends every other a bare signal.
inline Program barrier(int rank, int n) {
  Program p;
  for (int k = 1; k < n; k++) p.signal((rank + k) % n, -1, n > 2);
  for (int k = 1; k < n; k++) {
    p.wait((rank + k) % n, -1, n > 2);
    p.release((rank + k) % n, n > 2);
  }
  return p;
}

// A broadcast of `data` from `root`, by messages of their own to each rank.
inline void broadcast(ringtree::Group& group, int rank, int ranks, int root, std::vector<int>& data) {
  ringtree::Hooks hooks;
  auto program = flat(rank, ranks, root);
  const auto size = static_cast<std::int64_t>(data.size());
  const std::int64_t offset = 0;
  ringtree::Binding binding;
  binding.sizes = {&size, 1};
  binding.input_offsets = binding.output_offsets = {&offset, 1};
  binding.window = size;
  binding.dtype = static_cast<int>(ringtree::Dtype::int32);
  binding.root = root;
  binding.count = static_cast<std::uint64_t>(size);
  binding.collective = "broadcast";
  auto at = reinterpret_cast<std::byte*>(data.data());
  group.run(group.prepare(program.encoded(), binding), at, at, hooks);
}

}  // namespace programs
