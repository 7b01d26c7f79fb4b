// The sources of the interpreter of devices' programs.
#include "bindings/device.h"

#include "bindings/bindings.h"
#include "device_sources.h"

void bind_device(nb::module_& m) {
  m.def("device_sources", [] {
    nb::dict found;
    for (auto& [name, text] : ringtree::device::sources) found[nb::str(name)] = nb::str(text);
    return found;
  });
}
