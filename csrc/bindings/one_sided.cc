// Python's view of one-sided access.
#include <span>

#include "bindings/bindings.h"

using namespace nb::literals;

namespace {

// Copies between this rank's memory and a rank's share of a window.
template <bool puts>
void transfer(nb::handle endpoint, int window, std::size_t offset, int peer, std::uintptr_t address,
              std::size_t nbytes) {
  auto& group = group_of(endpoint.ptr());
  std::span here(reinterpret_cast<std::byte*>(address), nbytes);
  PythonHooks hooks(group);
  if (nbytes > quick_bytes) hooks.blocking();
  if constexpr (puts)
    group.put(window, offset, peer, here, hooks);
  else
    group.get(window, offset, peer, here, hooks);
}

void signal(nb::handle endpoint, int peer, int index) {
  group_of(endpoint.ptr()).signals().send(peer, index);
}

void wait_signal(nb::handle endpoint, int peer, int index, std::uint64_t count, double timeout_s) {
  auto& group = group_of(endpoint.ptr());
  PythonHooks hooks(group);
  if (group.threads()) hooks.blocking();
  group.signals().wait(peer, index, count, timeout_s, hooks);
}

}  // namespace

void bind_one_sided(nb::object type) {
  auto add = [&](const char* name, auto function, auto... arguments) {
    type.attr(name) = nb::cpp_function(function, nb::name(name), nb::scope(type), nb::is_method(), arguments...);
  };
  add("put", transfer<true>, "window"_a, "offset"_a, "peer"_a, "source"_a, "nbytes"_a);
  add("get", transfer<false>, "window"_a, "offset"_a, "peer"_a, "target"_a, "nbytes"_a);
  add("signal", signal, "peer"_a, "index"_a);
  add("wait_signal", wait_signal, "peer"_a, "index"_a, "count"_a, "timeout_s"_a);
}
