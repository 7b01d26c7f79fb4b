#pragma once

#include <nanobind/nanobind.h>

void bind_device(nanobind::module_& m);
