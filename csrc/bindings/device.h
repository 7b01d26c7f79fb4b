#pragma once

#include <nanobind/nanobind.h>

void bind_device(nanobind::module_& m);
// Adds the classes for calls that are like earlier ones on arrays in devices' memory; after the class Group.
void bind_device_calls(nanobind::module_& m);
