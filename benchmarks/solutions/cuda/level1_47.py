"""Sum over one dimension: a thread an inner position and an eighth of the dimension."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
constexpr int COLUMNS = 64, PARTS = 8;

__global__ void sum_over_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t length, int64_t inner) {
  __shared__ float of_part[PARTS][COLUMNS];
  const int64_t at = int64_t(blockIdx.y) * COLUMNS + threadIdx.x;
  x += blockIdx.x * length * inner + at;
  float found = 0.f;
  if (at < inner) {
#pragma unroll 4
    for (int64_t row = threadIdx.y; row < length; row += PARTS) {
      const float value = x[row * inner];
      found = found + value;
    }
  }
  of_part[threadIdx.y][threadIdx.x] = found;
  __syncthreads();
  if (threadIdx.y == 0 && at < inner) {
    for (int part = 1; part < PARTS; ++part) found = found + of_part[part][threadIdx.x];
    out[blockIdx.x * inner + at] = found;
  }
}

torch::Tensor sum_over(torch::Tensor x, int64_t dim) {
  if (dim < 0) dim += x.dim();
  int64_t outer = 1, inner = 1;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i < dim) outer *= x.size(i);
    if (i > dim) inner *= x.size(i);
    sizes.push_back(x.size(i));
  }
  sizes[dim] = 1;
  auto out = torch::empty(sizes, x.options());
  const dim3 blocks(outer, (inner + COLUMNS - 1) / COLUMNS), threads(COLUMNS, PARTS);
  sum_over_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(dim), inner);
  return out;
}
"""
module = load_inline(
    name="level1_47_sum_over",
    cpp_sources="torch::Tensor sum_over(torch::Tensor x, int64_t dim);",
    cuda_sources=SOURCE,
    functions=["sum_over"],
)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return module.sum_over(x, self.dim)
