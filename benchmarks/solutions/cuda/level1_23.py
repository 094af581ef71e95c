"""Softmax of long rows: read once for maximum and sum, once more to write; a block a row."""

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

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t columns) {
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float largest = -INFINITY, total = 0.f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = x[i], larger = fmaxf(largest, value);
    total = total * expf(largest - larger) + expf(value - larger);
    largest = larger;
  }
  const float row_largest = block_max(largest);
  const float row_total = block_sum(total * expf(largest - row_largest));
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(x[i] - row_largest) / row_total;
}

torch::Tensor softmax(torch::Tensor x) {
  auto out = torch::empty_like(x);
  softmax_kernel<<<x.size(0), 1024>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
module = load_inline(
    name="level1_23_softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.softmax(x)
