"""Matrix product and Mish twice: one kernel after torch's layer, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x) {
  for (int i = 0; i < 2; ++i) {
    const float grown = expf(fminf(x, 20.f));
    x *= grown * (grown + 2.f) / (grown * (grown + 2.f) + 2.f);
  }
  return x;
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
    name="level2_29_tail",
    cpp_sources="void tail(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = self.linear(x)
        module.tail(x)
        return x
