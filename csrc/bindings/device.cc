// Programs of devices: their sources, and the interpreter for this machine's processor.
#include "bindings/device.h"

#include <cstring>

#include "bindings/bindings.h"
#include "device/host.h"
#include "device_sources.h"

void bind_device(nb::module_& m) {
  m.def("device_sources", [] {
    nb::dict found;
    for (auto& [name, text] : ringtree::device::sources) found[nb::str(name)] = nb::str(text);
    return found;
  });
  m.def(
      "run_on_host",
      [](nb::bytes given) {
        ringtree::device::Call call;
        if (given.size() != sizeof call) throw nb::value_error("a call of another size");
        std::memcpy(&call, given.data(), sizeof call);
        nb::gil_scoped_release free;
        ringtree::device::run_on_host(call);
      },
      nb::arg("call"));
}
