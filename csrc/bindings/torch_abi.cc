#include "bindings/torch_abi.h"

#include <dlfcn.h>

#include <type_traits>

namespace torch_abi {

bool Calls::find(void* function) {
  Dl_info from;
  if (!dladdr(function, &from) || !from.dli_fname) return false;
  void* library = dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD);  // never closed: torch is not unloaded
  if (!library) return false;
  bool all = true;
  auto get = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library, name));
    all = all && call;
  };
  get(version, "aoti_torch_abi_version");
  get(strided, "aoti_torch_layout_strided");
  get(device_type, "aoti_torch_get_device_type");
  get(layout, "aoti_torch_get_layout");
  get(is_contiguous, "aoti_torch_is_contiguous");
  get(dtype, "aoti_torch_get_dtype");
  get(dim, "aoti_torch_get_dim");
  get(sizes, "aoti_torch_get_sizes");
  get(data, "aoti_torch_get_data_ptr");
  get(is_neg, "_ZN2at6native6is_negERKNS_6TensorE");
  get(is_conj, "_ZN2at6native7is_conjERKNS_6TensorE");
  return all && version() >> 56 == major;
}

}  // namespace torch_abi
