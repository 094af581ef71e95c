# A cooperative launch, whose grid synchronises between two phases.
# problem: row_max
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void row_max_kernel(const float* x, float* partial, float* y, int rows, int columns) {
  const int row = blockIdx.x / 2, half = blockIdx.x % 2;
  float top = -INFINITY;
  for (int c = half * 32 + threadIdx.x; c < columns; c += 64) top = fmaxf(top, x[row * columns + c]);
  for (int offset = 16; offset; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
  if (threadIdx.x == 0) partial[blockIdx.x] = top;
  cg::this_grid().sync();
  if (half == 0 && threadIdx.x == 0) y[row] = fmaxf(partial[blockIdx.x], partial[blockIdx.x + 1]);
}
torch::Tensor row_max(torch::Tensor x) {
  int rows = x.size(0), columns = x.size(1);
  auto partial = torch::empty({2 * rows}, x.options()), y = torch::empty({rows}, x.options());
  const float* in = x.data_ptr<float>();
  float *mid = partial.data_ptr<float>(), *out = y.data_ptr<float>();
  void* args[] = {&in, &mid, &out, &rows, &columns};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel((void*)row_max_kernel, dim3(2 * rows), dim3(32), args, 0, nullptr));
  return y;
}
"""
module = load_inline(
    name="row_max", cpp_sources="torch::Tensor row_max(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_max"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_max(x)
