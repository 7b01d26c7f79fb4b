// The interpreter of devices' programs, compiled for this machine's processor: what is tested where there is no device.
#pragma once

#include "device/program.h"

namespace ringtree {
struct Hooks;
}

namespace ringtree::device {

// Runs the call's blocks one after the other. Returns when all are done, or the status says why not. Throws what a hook
// throws in a wait: then no call waits any more.
void run_on_host(const Call& call, Hooks& hooks);

}  // namespace ringtree::device
