#include "kernels.h"

namespace ringtree {

namespace {
constexpr std::string_view dtype_names[dtypes] = {"bool",     "int8",    "int16",  "int32",  "int64",
                                                  "uint8",    "uint16",  "uint32", "uint64", "float16",
                                                  "bfloat16", "float32", "float64"};
constexpr std::size_t widths[dtypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
constexpr std::string_view op_names[ops] = {"sum", "prod", "max", "min", "avg"};
}  // namespace

std::string_view dtype_name(int dtype) {
  return dtype >= 0 && dtype < dtypes ? dtype_names[dtype] : "an unknown type";
}

std::string_view op_name(int op) {
  return op >= 0 && op < ops ? op_names[op] : "an unknown operation";
}

std::size_t dtype_bytes(int dtype) {
  return dtype >= 0 && dtype < dtypes ? widths[dtype] : 0;
}

const Kernels& kernels() {
#if defined(__x86_64__) && !defined(RINGTREE_BASE_KERNELS_ONLY)
  if (__builtin_cpu_supports("x86-64-v4")) return isa_v4::table();
  if (__builtin_cpu_supports("x86-64-v3")) return isa_v3::table();
#endif
  return isa_base::table();
}

}  // namespace ringtree
