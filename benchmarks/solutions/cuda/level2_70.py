"""Matrix product, sigmoid, scaling, and the product once more: one kernel after torch's layer, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x, float factor) {
  return factor / (1.f + expf(-x)) + x;
}

__global__ void tail_kernel(float* x, int64_t n, float factor) {
  const int64_t at = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (at + 4 <= n) {
    float4 four = *reinterpret_cast<const float4*>(x + at);
    four.x = tail_of(four.x, factor);
    four.y = tail_of(four.y, factor);
    four.z = tail_of(four.z, factor);
    four.w = tail_of(four.w, factor);
    *reinterpret_cast<float4*>(x + at) = four;
  } else {
    for (int64_t i = at; i < n; ++i) x[i] = tail_of(x[i], factor);
  }
}

void tail(torch::Tensor x, double factor) {
  const int64_t n = x.numel(), threads = 256;
  tail_kernel<<<(n + 4 * threads - 1) / (4 * threads), threads>>>(x.data_ptr<float>(), n, static_cast<float>(factor));
}
"""
module = load_inline(
    name="level2_70_tail",
    cpp_sources="void tail(torch::Tensor x, double factor);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size, scaling_factor):
        super().__init__()
        self.gemm = nn.Linear(input_size, hidden_size)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.gemm(x)
        module.tail(x, self.scaling_factor)
        return x
