# Device functions that are called: they load, store and fill an array of their caller.
# problem: add
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __noinline__ void pair(const float* x, const float* y, int i, float* both) {
  both[0] = x[i];
  both[1] = y[i];
}
__device__ __noinline__ void store(float* out, int i, float value) { out[i] = value; }
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float both[2];
  pair(x, y, i, both);
  store(out, i, both[0] + both[1]);
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
