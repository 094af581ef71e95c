# Cooperative groups: tiles of a warp.
# problem: rms_norm
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void rms_norm_kernel(const float* x, const float* w, float* y, int rows, int columns) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int row = blockIdx.x * (blockDim.x / 32) + warp.meta_group_rank();
  if (row >= rows) return;
  float sum = 0.f;
  for (int c = warp.thread_rank(); c < columns; c += 32) sum += x[row * columns + c] * x[row * columns + c];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  const float scale = rsqrtf(sum / columns + 1e-6f);
  for (int c = warp.thread_rank(); c < columns; c += 32) y[row * columns + c] = x[row * columns + c] * scale * w[c];
}
torch::Tensor rms_norm(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty_like(x);
  const int columns = x.size(-1), rows = x.numel() / columns;
  rms_norm_kernel<<<(rows + 3) / 4, 128>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}
"""
module = load_inline(
    name="rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor w);",
    cuda_sources=SOURCE,
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(__import__("torch").randn(features))

    def forward(self, x):
        return module.rms_norm(x, self.weight)
