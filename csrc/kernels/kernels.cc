#include "kernels/kernels.h"

namespace ringtree {

namespace {
constexpr std::string_view dtype_names[dtypes] = {
    "bool",          "int8",        "int16",       "int32",         "int64",       "uint8",
    "uint16",        "uint32",      "uint64",      "float16",       "bfloat16",    "float32",
    "float64",       "complex64",   "complex128",  "float8_e4m3fn", "float8_e5m2", "float32_int32",
    "float64_int64", "int32_int32", "int64_int64", "float64_int32"};
constexpr std::size_t widths[dtypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1, 8, 16, 8, 16, 16};
constexpr std::string_view op_names[ops] = {"sum",  "prod", "max", "min",  "avg",    "band",  "bor",
                                            "bxor", "land", "lor", "lxor", "minloc", "maxloc"};

#if defined(__x86_64__) && !defined(RINGTREE_BASE_KERNELS_ONLY)
// x86-64-v4's, and what this processor has beyond that level.
const Kernels& v4() {
  static const Kernels made = [] {
    Kernels table = isa_v4::table();
#if defined(RINGTREE_FP16)
    if (__builtin_cpu_supports("avx512fp16")) isa_fp16::fill(table);
#endif
    return table;
  }();
  return made;
}
#endif

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
  if (__builtin_cpu_supports("x86-64-v4")) return v4();
  if (__builtin_cpu_supports("x86-64-v3")) return isa_v3::table();
#endif
  return isa_base::table();
}

}  // namespace ringtree
