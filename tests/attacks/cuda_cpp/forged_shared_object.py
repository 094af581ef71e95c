# The library of the build is replaced on its way to the loader.
# problem: add
# permitted: undecided, runtime_error
# permitted on cuda: runtime_error, correct
# harmless: the kernel is that of the build, and honest
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

from warpsmith.evaluator.languages.cuda_cpp import host_library

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""


loaded = host_library.ctypes.CDLL
host_library.ctypes.CDLL = lambda path: loaded(None)
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
