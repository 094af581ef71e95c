# Pointers in an array of a struct, chosen by a loop that is not unrolled.
# problem: add
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
struct Terms {
  const float* from[2];
  float* to;
  int n;
};
__global__ void add_kernel(const Terms terms) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= terms.n) return;
  float sum = 0.f;
#pragma unroll 1
  for (int k = 0; k < 2; ++k) sum += terms.from[k][i];
  terms.to[i] = sum;
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  const Terms terms{{x.data_ptr<float>(), y.data_ptr<float>()}, out.data_ptr<float>(), (int)x.numel()};
  add_kernel<<<(x.numel() + 127) / 128, 128>>>(terms);
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
