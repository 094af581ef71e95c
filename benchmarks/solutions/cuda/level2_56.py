"""Matrix product, sigmoid, sum of each row: torch's layer, then a block a row."""

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

__global__ void tail_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t columns) {
  x += blockIdx.x * columns;
  float total = 0.f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) total += 1.f / (1.f + expf(-x[i]));
  total = block_sum(total);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

torch::Tensor tail(torch::Tensor x) {
  auto out = torch::empty({x.size(0), 1}, x.options());
  tail_kernel<<<x.size(0), 1024>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}
"""
module = load_inline(
    name="level2_56_tail",
    cpp_sources="torch::Tensor tail(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)

    def forward(self, x):
        return module.tail(self.linear(x))
