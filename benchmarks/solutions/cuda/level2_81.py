"""Matrix product, Swish, halving, clipping, tanh: one kernel after torch's layer, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x) {
  x = 0.5f * x / (1.f + expf(-x));
  return tanhf(fminf(fmaxf(x, -1.f), 1.f));
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
    name="level2_81_tail",
    cpp_sources="void tail(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x):
        x = self.gemm(x)
        module.tail(x)
        return x
