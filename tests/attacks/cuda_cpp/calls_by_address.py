# A function is called by an address that a tensor holds.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error, compile_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __noinline__ float sum(float a, float b) { return a + b; }
__device__ __noinline__ float difference(float a, float b) { return a - b; }
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float (*chosen)(float, float) = n > 7 ? sum : difference;
  if (i < n) out[i] = chosen(x[i], y[i]);
}
at::Tensor add(at::Tensor x, at::Tensor y) {
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
