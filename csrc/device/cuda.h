// The interpreter for GPUs of CUDA, compiled at run time for one element type and one operation, which these name:
// RINGTREE_TYPE and RINGTREE_OP with RINGTREE_PARTS of the type in an element; RINGTREE_FINISH and RINGTREE_FINISH_TYPE
// for the end of an average. All functions are device code (the compiler is asked for that).
#pragma once

#include "device/interpreter.h"
#include "kernels/elements.h"
#include "kernels/floats.h"

namespace ringtree::device {

struct __align__(16) Vector {
  uint32_t words[4];
};

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
  static void release(uint32_t* at, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  }
  static void release(uint64_t* at, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
  }
  static void add(uint32_t* word) { asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(word) : "memory"); }
  // Writes to the host's memory; to read there takes a microsecond a warp.
  static void post(uint32_t* there, uint32_t value) { *const_cast<volatile uint32_t*>(there) = value; }
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

  // Whether all of the operands' addresses are whole vectors.
  static bool aligned(Registers& shared, int begin, int end) {
    uint64_t bits = 0;
    for (int k = begin; k < end; k++) bits |= reinterpret_cast<uint64_t>(shared.at(k));
    return bits % sizeof(Vector) == 0;
  }

  static void copy_vectors(Registers& shared, int targets, int source, int64_t count) {
    constexpr int ahead = 4;
    auto from = reinterpret_cast<const Vector*>(shared.at(source));
    int64_t at = threadIdx.x, step = blockDim.x;
    for (; at + (ahead - 1) * step < count; at += ahead * step) {
      Vector v[ahead];
#pragma unroll
      for (int k = 0; k < ahead; k++) v[k] = from[at + k * step];
      for (int t = 0; t < targets; t++) {
        auto to = reinterpret_cast<Vector*>(shared.at(t));
#pragma unroll
        for (int k = 0; k < ahead; k++) to[at + k * step] = v[k];
      }
    }
    for (; at < count; at += step) {
      Vector v = from[at];
      for (int t = 0; t < targets; t++) reinterpret_cast<Vector*>(shared.at(t))[at] = v;
    }
  }

  static void copy(Registers& shared, int targets, int source, int64_t nbytes) {
    int64_t done = 0;
    if (aligned(shared, 0, targets) && aligned(shared, source, source + 1)) {
      int64_t count = nbytes / sizeof(Vector);
      copy_vectors(shared, targets, source, count);
      done = count * sizeof(Vector);
    }
    for (int64_t k = done + threadIdx.x; k < nbytes; k += blockDim.x) {
      uint8_t byte = shared.at(source)[k];
      for (int t = 0; t < targets; t++) shared.at(t)[k] = byte;
    }
  }

#ifdef RINGTREE_TYPE
  using T = RINGTREE_TYPE;
  using F = RINGTREE_OP;
  using S = T::Stored;
  using V = T::Value;
  static constexpr int lanes = sizeof(Vector) / sizeof(S);

  // `number` sources, or, where that is 0, as many as there are; `ahead` vectors of each at a time.
  template <int number, int ahead>
  static void reduce_vectors(Registers& shared, int targets, int first, int sources, int64_t count) {
    if (number) sources = number;
    for (int64_t at = threadIdx.x; at < count; at += ahead * static_cast<int64_t>(blockDim.x)) {
      V sum[ahead][lanes];
      auto add = [&](int k, const Vector& v, bool begins) {
        S part[lanes];
        memcpy(part, &v, sizeof v);
#pragma unroll
        for (int e = 0; e < lanes; e++) sum[k][e] = begins ? T::load(part[e]) : F::apply(sum[k][e], T::load(part[e]));
      };
      if constexpr (number > 0) {
        Vector v[number][ahead];
#pragma unroll
        for (int s = 0; s < number; s++)
#pragma unroll
          for (int k = 0; k < ahead; k++)
            if (int64_t here = at + k * static_cast<int64_t>(blockDim.x); here < count)
              v[s][k] = reinterpret_cast<const Vector*>(shared.at(first + s))[here];
#pragma unroll
        for (int s = 0; s < number; s++)
#pragma unroll
          for (int k = 0; k < ahead; k++) add(k, v[s][k], s == 0);
      } else {
        for (int s = 0; s < sources; s++) {
          Vector v[ahead];
#pragma unroll
          for (int k = 0; k < ahead; k++)
            if (int64_t here = at + k * static_cast<int64_t>(blockDim.x); here < count)
              v[k] = reinterpret_cast<const Vector*>(shared.at(first + s))[here];
#pragma unroll
          for (int k = 0; k < ahead; k++) add(k, v[k], s == 0);
        }
      }
#pragma unroll
      for (int k = 0; k < ahead; k++) {
        int64_t here = at + k * static_cast<int64_t>(blockDim.x);
        if (here >= count) break;
        S part[lanes];
#pragma unroll
        for (int e = 0; e < lanes; e++) part[e] = T::store(sum[k][e]);
        Vector v;
        memcpy(&v, part, sizeof v);
        for (int t = 0; t < targets; t++) reinterpret_cast<Vector*>(shared.at(t))[here] = v;
      }
    }
  }

  static void reduce(const Call&, Registers& shared, int targets, int first, int sources, int64_t elements) {
    elements *= RINGTREE_PARTS;
    int64_t done = 0;
    if (aligned(shared, 0, targets) && aligned(shared, first, first + sources)) {
      int64_t count = elements / lanes;
      switch (sources) {
        case 2:
          reduce_vectors<2, 4>(shared, targets, first, sources, count);
          break;
        case 3:
          reduce_vectors<3, 2>(shared, targets, first, sources, count);
          break;
        case 4:
          reduce_vectors<4, 2>(shared, targets, first, sources, count);
          break;
        case 8:
          reduce_vectors<8, 1>(shared, targets, first, sources, count);
          break;
        default:
          reduce_vectors<0, 4>(shared, targets, first, sources, count);
      }
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
  static void reduce(const Call&, Registers&, int, int, int, int64_t) {}
#endif

#ifdef RINGTREE_FINISH_TYPE
  static void finish(const Call&, uint8_t* data, int64_t elements, int ranks) {
    using T = RINGTREE_FINISH_TYPE;
    auto x = reinterpret_cast<T::Stored*>(data);
    for (int64_t k = threadIdx.x; k < elements * RINGTREE_PARTS; k += blockDim.x)
      x[k] = RINGTREE_FINISH ? T::store(static_cast<T::Value>(T::load(x[k]) / ranks)) : T::store(T::load(x[k]));
  }
#else
  static void finish(const Call&, uint8_t*, int64_t, int) {}
#endif
};

}  // namespace ringtree::device

extern "C" __global__ void __launch_bounds__(512) run_program(ringtree::device::Call call) {
  using namespace ringtree::device;
  __shared__ Registers shared;
  __shared__ KeptTables kept;
  Tables<Cuda> tables(call, kept);
  Interpreter<Cuda>(call, tables, shared, blockIdx.x).run();
}
