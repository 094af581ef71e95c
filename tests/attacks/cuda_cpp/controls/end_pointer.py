# A loop ends at a pointer right behind its tensor.
# problem: add
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* end, const float* y, float* out) {
  const int step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (const float* at = x + first; at < end; at += step) out[at - x] = *at + y[at - x];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  const float* begin = x.data_ptr<float>();
  add_kernel<<<4, 128>>>(begin, begin + x.numel(), y.data_ptr<float>(), out.data_ptr<float>());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
