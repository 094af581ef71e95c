#include <pybind11/pybind11.h>

PYBIND11_MODULE(_native, module) { module.doc() = "Sandbox, frames and buffers of the evaluator."; }
