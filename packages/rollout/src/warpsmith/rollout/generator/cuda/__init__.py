"""Solutions of generated problems in CUDA C++: kernels and their host function, built by `load_inline`."""
