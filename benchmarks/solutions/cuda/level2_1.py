"""Convolution, ReLU, a bias: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x, float bias) {
  return (x < 0.f ? 0.f : x) + bias;
}

__global__ void tail_kernel(float* x, const float* __restrict__ biases, int channels, int64_t positions) {
  const int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  const int channel = blockIdx.x % channels;
  float* place = x + blockIdx.x * positions + at;
  if (at < positions) *place = tail_of(*place, biases[channel]);
}

void tail(torch::Tensor x, torch::Tensor biases) {
  const int64_t planes = x.size(0) * x.size(1), positions = x.numel() / planes;
  const int threads = 256;
  const dim3 blocks(planes, (positions + threads - 1) / threads);
  tail_kernel<<<blocks, threads>>>(x.data_ptr<float>(), biases.data_ptr<float>(), x.size(1), positions);
}
"""
module = load_inline(
    name="level2_1_tail",
    cpp_sources="void tail(torch::Tensor x, torch::Tensor biases);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.conv(x)
        module.tail(x, self.bias)
        return x
