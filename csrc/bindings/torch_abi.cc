#include "bindings/torch_abi.h"

#include <dlfcn.h>

#include <atomic>
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
  get(device_index, "aoti_torch_get_device_index");
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

bool current_stream(std::int32_t device, void** stream) {
  using Function = int (*)(std::int32_t, void**);
  static std::atomic<Function> found = nullptr;
  auto function = found.load(std::memory_order_relaxed);
  if (!function) {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);  // by its name within, wherever it lies
    if (!library) return false;
    function = reinterpret_cast<Function>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
    if (!function) return false;
    found.store(function, std::memory_order_relaxed);
  }
  return function(device, stream) == 0;
}

}  // namespace torch_abi
