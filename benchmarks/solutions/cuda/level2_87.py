"""Convolution, two subtractions, Mish: one kernel after torch's layer, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x, float first, float second) {
  x = x - first - second;
  const float grown = expf(fminf(x, 20.f));
  return x * (grown * (grown + 2.f) / (grown * (grown + 2.f) + 2.f));
}

__global__ void tail_kernel(float* x, int64_t n, float first, float second) {
  const int64_t at = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (at + 4 <= n) {
    float4 four = *reinterpret_cast<const float4*>(x + at);
    four.x = tail_of(four.x, first, second);
    four.y = tail_of(four.y, first, second);
    four.z = tail_of(four.z, first, second);
    four.w = tail_of(four.w, first, second);
    *reinterpret_cast<float4*>(x + at) = four;
  } else {
    for (int64_t i = at; i < n; ++i) x[i] = tail_of(x[i], first, second);
  }
}

void tail(torch::Tensor x, double first, double second) {
  const int64_t n = x.numel(), threads = 256;
  tail_kernel<<<(n + 4 * threads - 1) / (4 * threads), threads>>>(
      x.data_ptr<float>(), n, static_cast<float>(first), static_cast<float>(second));
}
"""
module = load_inline(
    name="level2_87_tail",
    cpp_sources="void tail(torch::Tensor x, double first, double second);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, subtract_value_1, subtract_value_2):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.first, self.second = subtract_value_1, subtract_value_2

    def forward(self, x):
        x = self.conv(x)
        module.tail(x, self.first, self.second)
        return x
