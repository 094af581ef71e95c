"""Matrix product, an addition, Swish, tanh, GELU, clipping: one kernel after torch's layer, in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float tail_of(float x, float added) {
  x += added;
  x = tanhf(x / (1.f + expf(-x)));
  x = 0.5f * x * (1.f + erff(x * 0.7071067811865476f));
  return fminf(fmaxf(x, -1.f), 1.f);
}

__global__ void tail_kernel(float* x, const float* __restrict__ additions, int64_t columns) {
  const int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  float* place = x + blockIdx.x * columns + at;
  if (at < columns) *place = tail_of(*place, additions[at]);
}

void tail(torch::Tensor x, torch::Tensor additions) {
  const int64_t columns = x.size(1);
  const int threads = 256;
  const dim3 blocks(x.size(0), (columns + threads - 1) / threads);
  tail_kernel<<<blocks, threads>>>(x.data_ptr<float>(), additions.data_ptr<float>(), columns);
}
"""
module = load_inline(
    name="level2_95_tail",
    cpp_sources="void tail(torch::Tensor x, torch::Tensor additions);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, add_value_shape):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x):
        x = self.matmul(x)
        module.tail(x, self.add_value)
        return x
