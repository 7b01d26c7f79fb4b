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
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float32_int32,  // pairs: value and index, as a struct of C
  float64_int64,
  int32_int32,
  int64_int64,
  float64_int32
};
inline constexpr int dtypes = 22;

enum class Op : int { sum, prod, max, min, avg, band, bor, bxor, land, lor, lxor, minloc, maxloc };
inline constexpr int ops = 13;

std::string_view dtype_name(int dtype);
std::string_view op_name(int op);
std::size_t dtype_bytes(int dtype);

// target[i] = sources[0][i] op sources[1][i] op ..., in that order, for i < count. The target may be one of the
// sources, but not overlap one otherwise. 16- and 8-bit floats are rounded once, at the end.
using Reduce = void (*)(void* target, const void* const* sources, int nsources, std::size_t count);

// The end of a reduction, done once to its result: an average is divided by the number of ranks (integers truncate
// toward zero), and a logical value that was joined with nothing becomes 0 or 1.
using Finish = void (*)(void* data, std::size_t count, int ranks);

// nullptr: there is no such reduction; nothing to finish.
struct Kernels {
  Reduce reduce[dtypes][ops];  // avg reduces as sum
  Finish finish[dtypes][ops];
};

// The widest set of loops this machine runs.
const Kernels& kernels();

// The kernels that are compiled once; each instruction set's table begins with them.
Kernels narrow_kernels();

// One per instruction set.
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
namespace isa_fp16 {  // on top of isa_v4's
void fill(Kernels& table);
}
#endif

}  // namespace ringtree
