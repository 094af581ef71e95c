"""CUDA C++ as a kernel language: `load_inline` sources, compiled by nvcc, their host code recorded without a GPU."""
