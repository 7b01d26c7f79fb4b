// The interpreter for GPUs of CUDA, compiled at run time for one element type and one operation, which these name:
// RINGTREE_TYPE and RINGTREE_OP with RINGTREE_PARTS of the type in an element; RINGTREE_FINISH and RINGTREE_FINISH_TYPE
// for the end of an average. All functions are device code (the compiler is asked for that).
#pragma once

#include "device/flagged.h"
#include "device/interpreter.h"
#include "kernels/elements.h"
#include "kernels/floats.h"

namespace ringtree::device {

struct Cuda {
  static constexpr uint32_t turns = 64;

  static int thread() { return threadIdx.x; }
  static int threads() { return blockDim.x; }
  static void barrier() { __syncthreads(); }
  static bool any(bool it) { return __syncthreads_or(it); }
  static bool stop(const volatile uint32_t* word) { return *word != 0; }
  static uint64_t now_ns() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  }
  static void pause(uint32_t turn) {
    if (turn > 4096) __nanosleep(200);
  }
  static uint32_t acquire(const uint32_t* at) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
  }
  static uint64_t acquire(const uint64_t* at) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
  }
  static uint64_t read(const uint64_t* at) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
  }
  static void write(uint32_t* at, uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  }
  static void write(uint64_t* at, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
  }
  static void release(uint32_t* at, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  }
  static void release(uint64_t* at, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
  }
  static void add(uint32_t* word) { asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(word) : "memory"); }
  // Writes to the host's memory; to read there takes a microsecond a warp.
  static void report(Status* status, const Status& found) {
    volatile Status* s = status;
    if (s->outcome) return;
    s->peer = found.peer;
    s->instruction = found.instruction;
    s->block = found.block;
    s->print = found.print;
    __threadfence_system();
    s->outcome = found.outcome;
    __threadfence_system();
  }

  // Copies whole vectors, all threads together, some of each of which are under way before the first is written.
  template <int number>
  static void bring(const Piece (&pieces)[number]) {
    int total = 0;
    for (const Piece& piece : pieces) total += piece.nbytes;
    constexpr int ahead = 4;
    for (int first = threadIdx.x * 16; first < total; first += ahead * 16 * blockDim.x) {
      Vector v[ahead];
      void* to[ahead];
#pragma unroll
      for (int k = 0; k < ahead; k++) {
        int at = first + k * 16 * blockDim.x;
        to[k] = nullptr;
        if (at >= total) continue;
#pragma unroll
        for (const Piece& piece : pieces) {
          if (at >= 0 && at < piece.nbytes) {
            v[k] = *reinterpret_cast<const Vector*>(static_cast<const uint8_t*>(piece.from) + at);
            to[k] = static_cast<uint8_t*>(piece.to) + at;
          }
          at -= piece.nbytes;
        }
      }
#pragma unroll
      for (int k = 0; k < ahead; k++)
        if (to[k]) *static_cast<Vector*>(to[k]) = v[k];
    }
  }

  // Whether all of the operands' addresses are whole vectors.
  static bool aligned(Registers& shared, int begin, int end) {
    uint64_t bits = 0;
    for (int k = begin; k < end; k++) bits |= reinterpret_cast<uint64_t>(shared.at(k));
    return bits % sizeof(Vector) == 0;
  }

  // ---- what is done with sources: bytes are copied, elements are reduced

  // A result of 16 bytes; the first source begins it.
  struct Copied {
    Vector v;
    void begin(const Vector& source) { v = source; }
    void add(const Vector&) {}
    Vector end() const { return v; }
  };

#ifdef RINGTREE_TYPE
  using T = RINGTREE_TYPE;
  using F = RINGTREE_OP;
  using S = T::Stored;
  using V = T::Value;
  static constexpr int lanes = sizeof(Vector) / sizeof(S);

  struct Reduced {
    V sums[lanes];
    void begin(const Vector& source) {
      S part[lanes];
      memcpy(part, &source, sizeof source);
#pragma unroll
      for (int e = 0; e < lanes; e++) sums[e] = T::load(part[e]);
    }
    void add(const Vector& source) {
      S part[lanes];
      memcpy(part, &source, sizeof source);
#pragma unroll
      for (int e = 0; e < lanes; e++) sums[e] = F::apply(sums[e], T::load(part[e]));
    }
    Vector end() const {
      S part[lanes];
#pragma unroll
      for (int e = 0; e < lanes; e++) part[e] = T::store(sums[e]);
      Vector v;
      memcpy(&v, part, sizeof v);
      return v;
    }
  };
#else
  using Reduced = Copied;
#endif

  // ---- plain memory

  // `number` sources, `ahead` vectors of each at a time.
  template <class Result, int number, int ahead>
  RINGTREE_APART static void combine_vectors(Registers& shared, int targets, int64_t count) {
    const Vector* from[number];
#pragma unroll
    for (int s = 0; s < number; s++) from[s] = reinterpret_cast<const Vector*>(shared.at(targets + s));
    int64_t at = threadIdx.x;
    const int64_t step = blockDim.x;
    auto work = [&](auto some) {
      constexpr int vectors = decltype(some)::value;
      Vector v[number][vectors];
#pragma unroll
      for (int s = 0; s < number; s++)
#pragma unroll
        for (int k = 0; k < vectors; k++) v[s][k] = from[s][at + k * step];
#pragma unroll
      for (int k = 0; k < vectors; k++) {
        Result result;
        result.begin(v[0][k]);
#pragma unroll
        for (int s = 1; s < number; s++) result.add(v[s][k]);
        v[0][k] = result.end();
      }
      for (int t = 0; t < targets; t++) {
        auto to = reinterpret_cast<Vector*>(shared.at(t));
#pragma unroll
        for (int k = 0; k < vectors; k++) to[at + k * step] = v[0][k];
      }
      at += vectors * step;
    };
    while (at + (ahead - 1) * step < count) work(Number<ahead>{});
    while (at < count) work(Number<1>{});
  }

  template <int number>
  struct Number {
    static constexpr int value = number;
  };

  // Any number of sources, one after the other.
  template <class Result>
  RINGTREE_APART static void combine_many(Registers& shared, int targets, int sources, int64_t count) {
    for (int64_t at = threadIdx.x; at < count; at += blockDim.x) {
      Result result;
      for (int first = 0; first < sources; first += 4) {
        Vector v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (first + k < sources) v[k] = reinterpret_cast<const Vector*>(shared.at(targets + first + k))[at];
#pragma unroll
        for (int k = 0; k < 4; k++)
          if (first + k < sources) first + k ? result.add(v[k]) : result.begin(v[k]);
      }
      Vector v = result.end();
      for (int t = 0; t < targets; t++) reinterpret_cast<Vector*>(shared.at(t))[at] = v;
    }
  }

  RINGTREE_APART static void copy(Registers& shared, int targets, int source, int64_t nbytes) {
    int64_t done = 0;
    if (aligned(shared, 0, source + 1)) {
      int64_t count = nbytes / sizeof(Vector);
      combine_vectors<Copied, 1, 4>(shared, targets, count);
      done = count * sizeof(Vector);
    }
    for (int64_t k = done + threadIdx.x; k < nbytes; k += blockDim.x) {
      uint8_t byte = shared.at(source)[k];
      for (int t = 0; t < targets; t++) shared.at(t)[k] = byte;
    }
  }

#ifdef RINGTREE_TYPE
  static void reduce(const Arithmetic&, Registers& shared, int targets, int first, int sources, int64_t elements,
                     int64_t) {
    elements *= RINGTREE_PARTS;
    int64_t done = 0;
    if (aligned(shared, 0, first + sources)) {
      int64_t count = elements / lanes;
      if (sources == 2)
        combine_vectors<Reduced, 2, 4>(shared, targets, count);
      else if (sources == 4)
        combine_vectors<Reduced, 4, 2>(shared, targets, count);
      else
        combine_many<Reduced>(shared, targets, sources, count);
      done = count * lanes;
    }
    for (int64_t k = done + threadIdx.x; k < elements; k += blockDim.x) {
      V sum = T::load(reinterpret_cast<const S*>(shared.at(first))[k]);
      for (int s = 1; s < sources; s++)
        sum = F::apply(sum, T::load(reinterpret_cast<const S*>(shared.at(first + s))[k]));
      S stored = T::store(sum);
      for (int t = 0; t < targets; t++) reinterpret_cast<S*>(shared.at(t))[k] = stored;
    }
  }
#else
  static void reduce(const Arithmetic&, Registers&, int, int, int, int64_t, int64_t) {}
#endif

  // ---- flagged messages

  // Plain memory, 16 bytes or less.
  RINGTREE_APART static Vector load_some(const uint8_t* from, int nbytes) {
    Vector v{};
    for (int k = 0; k < nbytes; k++) v.words[k / 4] |= static_cast<uint32_t>(from[k]) << k % 4 * 8;
    return v;
  }
  RINGTREE_APART static void store_some(uint8_t* to, Vector v, int nbytes) {
    for (int k = 0; k < nbytes; k++) to[k] = static_cast<uint8_t>(v.words[k / 4] >> k % 4 * 8);
  }
  static bool whole(const uint8_t* at, int nbytes) {
    return nbytes == sizeof(Vector) && reinterpret_cast<uint64_t>(at) % sizeof(Vector) == 0;
  }
  static Vector load(const uint8_t* from, int nbytes) {
    return whole(from, nbytes) ? *reinterpret_cast<const Vector*>(from) : load_some(from, nbytes);
  }
  static void store(uint8_t* to, const Vector& v, int nbytes) {
    if (whole(to, nbytes))
      *reinterpret_cast<Vector*>(to) = v;
    else
      store_some(to, v, nbytes);
  }

  // 128 bits at once.
  static FlaggedWord get(const FlaggedWord* from) {
    FlaggedWord word;
    asm volatile("{\n.reg .b128 whole;\nld.relaxed.sys.global.b128 whole, [%2];\nmov.b128 {%0, %1}, whole;\n}"
                 : "=l"(word.bytes), "=l"(word.mark)
                 : "l"(from)
                 : "memory");
    return word;
  }
  static void put(FlaggedWord* to, FlaggedWord word) {
    asm volatile(
        "{\n.reg .b128 whole;\nmov.b128 whole, {%1, %2};\nst.relaxed.sys.global.b128 [%0], whole;\n}" ::"l"(to),
        "l"(word.bytes), "l"(word.mark)
        : "memory");
  }

  // A vector, as two flagged words.
  struct Line {
    FlaggedWord low, high;
    bool bears(uint64_t mark) const { return low.mark == mark && high.mark == mark; }
    Vector vector() const {
      return {static_cast<uint32_t>(low.bytes), static_cast<uint32_t>(low.bytes >> 32),
              static_cast<uint32_t>(high.bytes), static_cast<uint32_t>(high.bytes >> 32)};
    }
  };
  static Line line_of(const Vector& v) {
    return {{joined(v.words[0], v.words[1]), 0}, {joined(v.words[2], v.words[3]), 0}};
  }
  static uint64_t joined(uint32_t low, uint32_t high) { return static_cast<uint64_t>(high) << 32 | low; }
  static Line get_line(const uint8_t* from) {
    auto words = reinterpret_cast<const FlaggedWord*>(from);
    return {get(words), get(words + 1)};
  }
  static void put_line(uint8_t* to, const Vector& v, uint64_t mark) {
    auto words = reinterpret_cast<FlaggedWord*>(to);
    put(words, {joined(v.words[0], v.words[1]), mark});
    put(words + 1, {joined(v.words[2], v.words[3]), mark});
  }

  // Copies or reduces where sources or targets may be flagged, four sources under way at a time. `may_come(operand,
  // turn, since_ns)`: whether to look again for what has not come. False where a thread has given up.
  template <class MayCome>
  static bool exchange(const Arithmetic&, const Step& step, uint8_t* const* at, const uint64_t* marks,
                       MayCome may_come) {
    constexpr int together = 4;
    const int targets = step.targets, all = targets + step.sources;
    for (int here = threadIdx.x * sizeof(Vector); here < step.nbytes; here += blockDim.x * sizeof(Vector)) {
      int nbytes = step.nbytes - here < 16 ? step.nbytes - here : 16;
      Reduced result;
      Vector found;
      for (int first = targets; first < all; first += together) {
        Line lines[together];
#pragma unroll
        for (int s = 0; s < together; s++)
          if (first + s < all)
            lines[s] =
                marks[first + s] ? get_line(at[first + s] + 2 * here) : line_of(load(at[first + s] + here, nbytes));
#pragma unroll
        for (int s = 0; s < together; s++) {
          if (first + s >= all) continue;
          if (uint64_t mark = marks[first + s]) {
            uint64_t since_ns = 0;
            for (uint32_t turn = 1; !lines[s].bears(mark); turn++) {
              if (!may_come(first + s, turn, since_ns)) return false;
              lines[s] = get_line(at[first + s] + 2 * here);
            }
          }
          if (first + s > targets)
            result.add(lines[s].vector());
          else
            result.begin(found = lines[s].vector());
        }
      }
      if (step.kind == reducing) found = result.end();
      for (int t = 0; t < targets; t++)
        if (uint64_t mark = marks[t])
          put_line(at[t] + 2 * here, found, mark);
        else
          store(at[t] + here, found, nbytes);
    }
    return true;
  }

#ifdef RINGTREE_FINISH_TYPE
  static void finish(const Arithmetic&, uint8_t* data, int64_t elements, int ranks) {
    using T = RINGTREE_FINISH_TYPE;
    auto x = reinterpret_cast<T::Stored*>(data);
    for (int64_t k = threadIdx.x; k < elements * RINGTREE_PARTS; k += blockDim.x)
      x[k] = RINGTREE_FINISH ? T::store(static_cast<T::Value>(T::load(x[k]) / ranks)) : T::store(T::load(x[k]));
  }
#else
  static void finish(const Arithmetic&, uint8_t*, int64_t, int) {}
#endif
};

}  // namespace ringtree::device

extern "C" __global__ void __launch_bounds__(512) run_program(const __grid_constant__ ringtree::device::Call call) {
  using namespace ringtree::device;
  __shared__ Registers shared;
  __shared__ KeptTables kept;
  Tables<Cuda> tables(call, kept, blockIdx.x);
  Interpreter<Cuda>(call, tables, shared, blockIdx.x).run();
}

extern "C" __global__ void __launch_bounds__(512) run_flagged(const __grid_constant__ ringtree::device::Call call) {
  using namespace ringtree::device;
  __shared__ Resolved resolved;
  __shared__ KeptTables kept;
  Tables<Cuda> tables(call, kept, blockIdx.x);
  FlaggedInterpreter<Cuda>(call, tables, resolved, blockIdx.x).run(blockIdx.x);
}
