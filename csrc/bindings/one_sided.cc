// Python's view of one-sided access.
#include <cstring>

#include "bindings/bindings.h"

using namespace nb::literals;

namespace {

void copy(nb::handle seat, std::uintptr_t to, std::uintptr_t from, std::size_t nbytes) {
  group_of(seat.ptr()).signals();  // throws where the group cannot be used
  PythonHooks hooks;
  if (nbytes > quick_bytes) hooks.blocking();
  if (nbytes) std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), nbytes);
}

void signal(nb::handle seat, int peer, int index) {
  group_of(seat.ptr()).signals().send(peer, index);
}

void wait_signal(nb::handle seat, int peer, int index, std::uint64_t count, double timeout_s) {
  auto& group = group_of(seat.ptr());
  PythonHooks hooks;
  if (group.threads()) hooks.blocking();
  group.signals().wait(peer, index, count, timeout_s, hooks);
}

}  // namespace

void bind_one_sided(nb::object type) {
  auto add = [&](const char* name, auto function, auto... arguments) {
    type.attr(name) = nb::cpp_function(function, nb::name(name), nb::scope(type), nb::is_method(), arguments...);
  };
  add("copy", copy, "to"_a, "source"_a, "nbytes"_a);
  add("signal", signal, "peer"_a, "index"_a);
  add("wait_signal", wait_signal, "peer"_a, "index"_a, "count"_a, "timeout_s"_a);
}
