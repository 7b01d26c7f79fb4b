// float16 on processors that compute with it, in place of x86-64-v4's.
#include "kernels/halves.h"
#include "kernels/kernels.h"

namespace ringtree::isa_fp16 {
void fill(Kernels& table) {
  auto& row = table.reduce[static_cast<int>(Dtype::float16)];
  row[static_cast<int>(Op::sum)] = row[static_cast<int>(Op::avg)] = Loops<Float16, Sum, NativeHalves<Sum>>::reduce;
  row[static_cast<int>(Op::prod)] = Loops<Float16, Prod, NativeHalves<Prod>>::reduce;
}
}  // namespace ringtree::isa_fp16
