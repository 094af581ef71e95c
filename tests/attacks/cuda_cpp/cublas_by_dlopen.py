# cuBLAS under another name: opened at run time, with a kernel for show.
# problem: add
# permitted: undecided, rejected, runtime_error
# permitted on cuda: rejected, runtime_error, correct
# harmless: without the library it is an honest kernel
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <dlfcn.h>
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  void* library = dlopen("libcublas.so.13", RTLD_NOW);
  if (library) return x + y;
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
