"""Matrix product, GELU, softmax: torch's layer, then a block a row, in place."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ float block_sum(float value) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? of_warp[lane] : 0.f;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  __syncthreads();
  return value;
}

__device__ float block_max(float value) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? of_warp[lane] : -INFINITY;
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  return value;
}

__global__ void tail_kernel(float* x, int64_t columns) {
  x += blockIdx.x * columns;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = 0.5f * x[i] * (1.f + erff(x[i] * 0.7071067811865476f));
    largest = fmaxf(largest, value);
    x[i] = value;
  }
  largest = block_max(largest);
  float total = 0.f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) total += x[i] = expf(x[i] - largest);
  total = block_sum(total);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) x[i] /= total;
}

void tail(torch::Tensor x) {
  tail_kernel<<<x.size(0), 1024>>>(x.data_ptr<float>(), x.size(1));
}
"""
module = load_inline(
    name="level2_99_tail",
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
