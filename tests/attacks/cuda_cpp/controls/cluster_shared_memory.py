# Blocks of a cluster read one another's shared memory.
# problem: row_sum
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) row_sum_kernel(const float* x, float* out, int columns) {
  __shared__ float own;
  auto cluster = cg::this_cluster();
  const int row = blockIdx.x / 2, half = cluster.block_rank();
  float sum = 0.f;
  for (int c = half * 32 + threadIdx.x; c < columns; c += 64) sum += x[row * columns + c];
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x == 0) own = sum;
  cluster.sync();
  if (half == 0 && threadIdx.x == 0) out[row] = own + *cluster.map_shared_rank(&own, 1);
  cluster.sync();
}
at::Tensor row_sum(at::Tensor x) {
  const int columns = x.size(-1), rows = x.numel() / columns;
  auto out = at::empty({rows}, x.options());
  row_sum_kernel<<<2 * rows, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), columns);
  return out;
}
"""
module = load_inline("row_sum", "at::Tensor row_sum(at::Tensor x);", SOURCE, functions=["row_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_sum(x)
