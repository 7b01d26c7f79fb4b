// Random sequences of differing calls, on ranks that are threads over one memory: what the sanitizers watch.
// Usage: random_calls [seed] [sequences]. Every result is checked; the seed is printed when one is wrong.
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "group/group.h"
#include "programs.h"

namespace {

using ringtree::Group;
using ringtree::PreparedProgram;

struct Memory {
  explicit Memory(std::size_t n)
      : nbytes(n), at(mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (at == MAP_FAILED) std::abort();
  }
  ~Memory() { munmap(at, nbytes); }
  std::size_t nbytes;
  void* at;
};

struct Shape {
  int ranks, slots;
  std::size_t slot_bytes, cache_bytes;
  std::size_t single_copy_bytes;  // 0: no rank reads another's memory
};

// One call as all ranks know it.
struct Call {
  enum Which { one_shot, two_shot, ring, chain, flat, barrier, puts, messages, posted } which;
  int root, pieces;
  std::int64_t count, window;
  bool in_place, in_region, out_in_region, asynchronous, average, single_copy;
  std::uint32_t stamp;  // what the data are made from
};

int value(std::uint32_t stamp, int rank, std::int64_t i) {
  return static_cast<int>((stamp + 31 * rank + 7 * i) % 1000);
}

[[noreturn]] void wrong(const char* what, int rank, std::uint32_t stamp) {
  std::fprintf(stderr, "rank %d, call stamped %u: %s\n", rank, stamp, what);
  std::abort();
}

class Rank {
 public:
  Rank(Memory& memory, Memory& region, Memory& windows, const Shape& shape, int rank)
      : shape_(shape),
        rank_(rank),
        region_(static_cast<int*>(region.at) + 2 * rank * most),
        windows_(static_cast<int*>(windows.at)) {
    ringtree::Endpoint::Options endpoint;
    endpoint.timeout_s = 60;
    endpoint.oversubscribed = true;
    Group::Options options{shape.slots, shape.slot_bytes, true, endpoint};
    options.cache_bytes = shape.cache_bytes;
    options.single_copy_bytes = rank == 1 && shape.slots % 2 ? 0 : shape.single_copy_bytes;  // one that refuses
    group_ = std::make_unique<Group>(memory.at, rank, shape.ranks, options);
    group_->add_region({static_cast<std::byte*>(region.at), region.nbytes}, hooks_);
  }
  static constexpr std::int64_t most = 140'000;  // of messages that both ends copy

  void make(const Call& call) {
    if (call.stamp % 4 == 0) group_->record(call.stamp % 500, hooks_);  // also while asynchronous calls run
    read_events(call);
    if (call.which == Call::puts) {
      put(call);
      return;
    }
    if (call.which >= Call::messages) {
      call.which == Call::messages ? exchange(call) : post(call);
      return;
    }
    if (rank_ % 2 && call.stamp % 5 == 0) std::this_thread::yield();
    auto job = std::make_unique<Job>();
    job->call = call;
    job->input.resize(call.count);
    for (std::int64_t i = 0; i < call.count; i++) job->input[i] = value(call.stamp, rank_, i);
    auto input = job->input.data();
    if (call.in_region && !call.asynchronous)
      input = std::copy(job->input.begin(), job->input.end(), region_) - call.count;
    if (!call.in_place) job->output.resize(call.count);
    job->at = call.in_place ? input : call.out_in_region && !call.asynchronous ? region_ + most : job->output.data();
    auto in = reinterpret_cast<std::byte*>(input), out = reinterpret_cast<std::byte*>(job->at);
    auto plan = bind(call);  // let go of while its calls may be queued
    if (call.asynchronous) {
      job->ticket = group_->start(plan, in, out);
      jobs_.push_back(std::move(job));
    } else {
      group_->run(plan, in, out, hooks_);  // after the asynchronous ones
      check(*job);
    }
    if (!call.asynchronous || jobs_.size() > 4) settle();
  }

  void settle() {
    for (auto& job : jobs_) {
      if (!group_->wait(job->ticket, 60, hooks_)) wrong("took too long", rank_, job->call.stamp);
      check(*job);
    }
    jobs_.clear();
  }

  void close() {
    if (group_->slots_open() != 0) wrong("a staging slot is still open", rank_, 0);
    group_->close();
  }

 private:
  struct Job {
    Call call;
    std::vector<int> input, output;
    int* at = nullptr;
    std::uint64_t ticket = 0;
  };

  programs::Program program(const Call& c) const {
    int n = shape_.ranks;
    switch (c.which) {
      case Call::one_shot:
        return programs::one_shot(rank_, n);
      case Call::two_shot:
        return programs::two_shot(rank_, n);
      case Call::ring:
        return programs::ring(rank_, n);
      case Call::chain:
        return programs::chain(rank_, n, c.root, c.pieces);
      case Call::flat:
        return programs::flat(rank_, n, c.root);
      default:
        return programs::barrier(rank_, n);
    }
  }

  std::shared_ptr<PreparedProgram> bind(const Call& c) {
    auto program = this->program(c);
    std::vector<std::int64_t> sizes, offsets;
    for (int chunk = 0; chunk < program.chunks; chunk++) {
      offsets.push_back(c.count * chunk / program.chunks);
      sizes.push_back(c.count * (chunk + 1) / program.chunks - offsets.back());
    }
    bool reduces = c.which <= Call::ring;
    ringtree::Binding b;
    b.sizes = sizes;
    b.input_offsets = b.output_offsets = offsets;
    b.window = c.window;
    b.dtype = static_cast<int>(ringtree::Dtype::int32);
    b.op = !reduces ? -1 : static_cast<int>(c.average ? ringtree::Op::avg : ringtree::Op::sum);
    b.root = reduces || c.which == Call::barrier ? -1 : c.root;
    b.count = c.count;
    b.digest = c.which;
    b.single_copy = c.single_copy;
    b.collective = reduces ? "all_reduce" : "broadcast";
    return group_->prepare(program.encoded(), b);
  }

  void check(const Job& job) const {
    auto& c = job.call;
    if (c.which == Call::barrier) return;
    for (std::int64_t i = 0; i < c.count; i++) {
      int want = value(c.stamp, c.root, i);
      if (c.which <= Call::ring) {
        want = 0;
        for (int r = 0; r < shape_.ranks; r++) want += value(c.stamp, r, i);
        if (c.average) want /= shape_.ranks;
      }
      if (job.at[i] != want) wrong("a wrong result", rank_, c.stamp);
    }
  }

  using Buffers = std::vector<std::vector<int>>;

  std::size_t length(const Call& c, int from, int to) const {
    return static_cast<std::size_t>((c.stamp + 17 * from + 5 * to) % 7) * c.count;
  }

  ringtree::Operation operation(bool is_send, int peer, int tag, std::vector<int>& unexpected) {
    return {is_send,
            peer,
            tag,
            reinterpret_cast<std::byte*>(unexpected.data()),
            unexpected.size() * sizeof(int),
            static_cast<int>(ringtree::Dtype::int32)};
  }

  Buffers written(const Call& c) const {
    Buffers out(shape_.ranks);
    for (int peer = 0; peer < shape_.ranks; peer++)
      out[peer].assign(length(c, rank_, peer), value(c.stamp, rank_, peer));
    return out;
  }

  void read(const Call& c, int source, const std::vector<int>& unexpected, std::size_t nbytes) const {
    if (nbytes != length(c, source, rank_) * sizeof(int)) wrong("a message of another length", rank_, c.stamp);
    for (std::size_t i = 0; i < nbytes / sizeof(int); i++)
      if (unexpected[i] != value(c.stamp, source, rank_)) wrong("a wrong message", rank_, c.stamp);
  }

  // Everyone writes to everyone; lengths from nothing to several pieces.
  void exchange(const Call& c) {
    auto out = written(c);
    Buffers in(shape_.ranks);
    std::vector<ringtree::Operation> all;
    for (int peer = 0; peer < shape_.ranks; peer++) {
      in[peer].assign(length(c, peer, rank_), -1);
      for (bool is_send : {true, false})
        all.push_back(operation(is_send, peer, static_cast<int>(c.stamp % 3), is_send ? out[peer] : in[peer]));
    }
    group_->exchange(all, 60, hooks_);
    for (int peer = 0; peer < shape_.ranks; peer++) read(c, peer, in[peer], in[peer].size() * sizeof(int));
  }

  // The same, begun before a barrier and waited for after it, by two threads; some are received from any rank,
  // the others once a probe has found them.
  void post(const Call& c) {
    auto out = written(c);
    int tag = 10 + static_cast<int>(c.stamp % 3), early = static_cast<int>(c.stamp % (shape_.ranks + 1));
    Buffers in(shape_.ranks, std::vector<int>(6 * c.count, -1));
    std::vector<std::uint64_t> sends, receives;
    for (int k = 0; k < early; k++) {
      auto receive = operation(false, ringtree::any, tag, in[k]);
      receive.length = ringtree::Length::at_most;
      receives.push_back(group_->post(std::move(receive)));
    }
    for (auto& unexpected : out)
      sends.push_back(group_->post(operation(true, static_cast<int>(&unexpected - out.data()), tag, unexpected)));
    meet();
    std::thread other([&] {
      ringtree::Hooks hooks;
      group_->messages().wait(sends, false, -1, hooks);
      for (auto number : sends)
        if (!group_->messages().drop(number)) wrong("a complete message that cannot be dropped", rank_, c.stamp);
    });
    for (int k = early; k < shape_.ranks; k++) {
      auto found = group_->probe(ringtree::any, tag, -1, hooks_);
      in[k].resize(found->nbytes / sizeof(int));
      auto receive = operation(false, found->source, tag, in[k]);
      group_->exchange({&receive, 1}, hooks_);
      read(c, found->source, in[k], found->nbytes);
    }
    while (!receives.empty()) {
      int place = group_->messages().wait(receives, true, -1, hooks_);
      auto status = group_->messages().status(receives[place]);
      receives.erase(receives.begin() + place);
      read(c, status.source, in[place], status.nbytes);
      in.erase(in.begin() + place);
    }
    other.join();
    meet();  // or the next call's messages would be taken for these
  }

  // Those there are, while others may be written down: each begins when the one before it is over, or later.
  void read_events(const Call& c) {
    auto recorder = group_->recorder();
    if (!recorder) return;
    auto events = recorder->events();
    auto calls = static_cast<int>(recorder->calls().size());
    std::uint64_t last = 0;
    for (auto& e : events) {
      if (e.start < last || e.end < e.start || e.call < 0 || e.call >= calls) wrong("a wrong event", rank_, c.stamp);
      last = e.end;
    }
    if (recorder->dropped() && events.empty()) wrong("dropped all events", rank_, c.stamp);
    if (auto messages = group_->message_recorder()) read_messages(c, *messages);
  }

  // Waits begin in the order in which messages came, whichever thread moved them.
  void read_messages(const Call& c, const ringtree::Recorder& recorder) {
    std::uint64_t last = 0;
    for (auto& e : recorder.events()) {
      if (e.end < e.start || e.call < 0 || e.peer == rank_) wrong("a wrong message", rank_, c.stamp);
      if (e.did != ringtree::Recorder::Did::wait) continue;
      if (e.start < last) wrong("a wait out of order", rank_, c.stamp);
      last = e.start;
    }
  }

  void meet() {
    Call barrier{};
    barrier.which = Call::barrier;
    barrier.window = 1;
    group_->run(bind(barrier), nullptr, nullptr, hooks_);
  }

  // Everyone writes into its right neighbour's window, and not again before that one has read it.
  void put(const Call& c) {
    int right = (rank_ + 1) % shape_.ranks, left = (rank_ + shape_.ranks - 1) % shape_.ranks;
    int written = static_cast<int>(c.stamp % 8), read = (written + 1) % 8;
    auto& signals = group_->signals();
    for (std::int64_t i = 0; i < c.count; i++) windows_[right * most + i] = value(c.stamp, rank_, i);
    signals.send(right, written);
    signals.wait(left, written, 1, 60, hooks_);
    for (std::int64_t i = 0; i < c.count; i++)
      if (windows_[rank_ * most + i] != value(c.stamp, left, i)) wrong("a wrong window", rank_, c.stamp);
    signals.send(left, read);
    signals.wait(right, read, 1, 60, hooks_);
  }

  Shape shape_;
  int rank_;
  int* region_;
  int* windows_;
  ringtree::Hooks hooks_;
  std::unique_ptr<Group> group_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

std::vector<Call> sequence(std::mt19937& random, const Shape& shape) {
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  std::vector<Call> calls(40);
  for (auto& c : calls) {
    c.which = static_cast<Call::Which>(below(9));
    c.root = below(shape.ranks);
    c.pieces = 1 + below(12);
    const std::int64_t counts[] = {0, 1, 2, 50, 57, 400, 1100, 3000, 12'000};
    c.count = c.which == Call::barrier ? 0 : counts[below(9)];
    c.window = 1 + below(static_cast<int>(shape.slot_bytes / sizeof(int)));
    if (c.count > 400 && c.window < 32) c.window = static_cast<std::int64_t>(shape.slot_bytes / sizeof(int));
    c.in_place = below(2);
    c.in_region = below(2);
    c.out_in_region = below(2);
    c.asynchronous = below(3) == 0;
    c.average = below(4) == 0;
    c.single_copy = below(2);
    if (c.single_copy && below(2)) c.window = Rank::most;  // messages longer than a slot
    bool moves = c.which == Call::chain || c.which == Call::flat;
    if (moves && c.window == Rank::most && below(2)) c.count = Rank::most, c.pieces = 1;
    c.stamp = random() & 0xffff;
  }
  return calls;
}

void live(unsigned seed) {
  std::mt19937 random(seed);
  const int ranks_of[] = {1, 2, 2, 3, 4};
  const std::size_t single_copies[] = {0, 4096, 256};  // of threads, which the kernel reads all the same
  Shape shape{ranks_of[random() % 5], 0, 0, seed % 2 ? 2000 : ringtree::last_cache_bytes(), single_copies[seed % 3]};
  shape.slots = shape.ranks + static_cast<int>(random() % 3);
  shape.slot_bytes = 1024u << random() % 5;
  ringtree::Layout layout(shape.ranks, shape.slots, shape.slot_bytes);
  Memory memory(layout.total), region(2 * Rank::most * sizeof(int) * shape.ranks),
      windows(Rank::most * sizeof(int) * shape.ranks);
  auto calls = sequence(random, shape);
  if (shape.ranks == 1) std::erase_if(calls, [](auto& c) { return c.which <= Call::ring; });  // a sum of one is a copy
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks; rank++)
    threads.emplace_back([&, rank] {
      try {
        Rank me(memory, region, windows, shape, rank);
        for (auto& call : calls) me.make(call);
        me.settle();
        me.close();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "seed %u, rank %d: %s\n", seed, rank, error.what());
        std::abort();
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  unsigned seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  int sequences = argc > 2 ? std::atoi(argv[2]) : 60;
  for (int k = 0; k < sequences; k++) live(seed + k);
  std::printf("%d sequences of 40 random calls, from seed %u: all right\n", sequences, seed);
}
