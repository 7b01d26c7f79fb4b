// What ringtree needs of torch's binary interface. Torch is found at run time, in the process that has loaded it, and
// ringtree is built where it is not.
//
// The functions with C names are torch's own "stable" interface (torch/csrc/inductor/aoti_torch/c/shim.h): each leaves
// 0 where it succeeded, and an exception is one of its errors. A Handle is the address of an at::Tensor, as a Python
// tensor keeps one behind the head of its object (THPVariable in torch/csrc/autograd/python_variable.h). Nothing
// promises that layout, nor the two functions of C++: they are used only where torch is of the major version for which
// they were seen, and where the object says of itself what was found there.
#pragma once

#include <cstdint>

namespace torch_abi {

constexpr int major = 2;
constexpr std::int32_t cpu = 0, cuda = 1;  // types of devices

using Handle = const void*;

struct Calls {
  std::uint64_t (*version)();  // of which the highest byte is the major version
  std::int32_t (*strided)();   // the layout of a dense tensor
  int (*device_type)(Handle, std::int32_t*);
  int (*device_index)(Handle, std::int32_t*);
  int (*layout)(Handle, std::int32_t*);
  int (*is_contiguous)(Handle, bool*);
  int (*dtype)(Handle, std::int32_t*);
  int (*dim)(Handle, std::int64_t*);
  int (*sizes)(Handle, const std::int64_t**);
  int (*data)(Handle, void**);
  // Whether the tensor shows its memory negated or conjugated: at::native::is_neg and is_conj of C++.
  bool (*is_neg)(Handle);
  bool (*is_conj)(Handle);

  // Those of the library that `function` belongs to and of what it is linked with; false where one is missing.
  bool find(void* function);
};

// The stream of CUDA on which the calling thread's work on a device goes, as torch has it; false where torch has none.
bool current_stream(std::int32_t device, void** stream);

}  // namespace torch_abi
