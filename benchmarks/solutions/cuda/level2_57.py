"""Convolution, ReLU, HardSwish: one kernel after torch's layer, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x) {
  x = x < 0.f ? 0.f : x;
  return x * fminf((x + 3.f) / 6.f, 1.f);
}

__global__ void tail_kernel(float* x, int64_t n) {
  const int64_t at = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (at + 4 <= n) {
    float4 four = *reinterpret_cast<const float4*>(x + at);
    four.x = tail_of(four.x);
    four.y = tail_of(four.y);
    four.z = tail_of(four.z);
    four.w = tail_of(four.w);
    *reinterpret_cast<float4*>(x + at) = four;
  } else {
    for (int64_t i = at; i < n; ++i) x[i] = tail_of(x[i]);
  }
}

void tail(torch::Tensor x) {
  const int64_t n = x.numel(), threads = 256;
  tail_kernel<<<(n + 4 * threads - 1) / (4 * threads), threads>>>(x.data_ptr<float>(), n);
}
"""
module = load_inline(
    name="level2_57_tail",
    cpp_sources="void tail(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        x = self.conv(x)
        module.tail(x)
        return x
