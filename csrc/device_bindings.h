#pragma once

#include <pybind11/pybind11.h>

namespace warpsmith {

/// Add the device's classes and functions to the module, without opening the driver.
void bind_device(pybind11::module_& module);

}  // namespace warpsmith
