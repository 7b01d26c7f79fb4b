// Reductions over arrays: types, operations, and the loops compiled for each instruction set.
#pragma once

#include <cstddef>
#include <string_view>

namespace ringtree {

enum class Dtype : int {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64
};
inline constexpr int dtypes = 13;

enum class Op : int { sum, prod, max, min, avg };
inline constexpr int ops = 5;

std::string_view dtype_name(int dtype);
std::string_view op_name(int op);
std::size_t dtype_bytes(int dtype);

// targets[k][i] = sources[0][i] op sources[1][i] op ..., in that order, for i < count and every k < ntargets.
// A target may be one of the sources, but not overlap one otherwise. 16-bit floats are rounded once, at the end.
using Reduce = void (*)(void* const* targets, int ntargets, const void* const* sources, int nsources,
                        std::size_t count);

// data[i] /= by; integers truncate toward zero.
using Divide = void (*)(void* data, std::size_t count, int by);

struct Kernels {
  Reduce reduce[dtypes][ops];  // avg reduces as sum
  Divide divide[dtypes];
};

// The widest set of loops this machine runs.
const Kernels& kernels();

// One per instruction set; nullptr where the compiler's target has no such set.
namespace isa_base {
const Kernels& table();
}
#if defined(__x86_64__)
namespace isa_v3 {
const Kernels& table();
}
namespace isa_v4 {
const Kernels& table();
}
#endif

}  // namespace ringtree
