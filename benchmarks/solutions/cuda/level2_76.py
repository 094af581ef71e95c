"""Matrix product, a bias, ReLU: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x, float bias) {
  x += bias;
  return x < 0.f ? 0.f : x;
}

__global__ void tail_kernel(float* x, const float* __restrict__ biases, int64_t columns) {
  const int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  float* place = x + blockIdx.x * columns + at;
  if (at < columns) *place = tail_of(*place, biases[at]);
}

void tail(torch::Tensor x, torch::Tensor biases) {
  const int64_t columns = x.size(1);
  const int threads = 256;
  const dim3 blocks(x.size(0), (columns + threads - 1) / threads);
  tail_kernel<<<blocks, threads>>>(x.data_ptr<float>(), biases.data_ptr<float>(), columns);
}
"""
module = load_inline(
    name="level2_76_tail",
    cpp_sources="void tail(torch::Tensor x, torch::Tensor biases);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.gemm(x)
        module.tail(x, self.bias)
        return x
