# A scan in shared memory by Hillis and Steele; memory of cudaMalloc as a workspace.
# problem: cumsum
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAException.h>
__global__ void scan_kernel(const float* x, float* y, float* totals, int columns) {
  __shared__ float buffer[2][128];
  int in = 0;
  const int c = threadIdx.x;
  buffer[0][c] = c < columns ? x[blockIdx.x * columns + c] : 0.f;
  __syncthreads();
  for (int offset = 1; offset < 128; offset *= 2) {
    buffer[1 - in][c] = buffer[in][c] + (c >= offset ? buffer[in][c - offset] : 0.f);
    in = 1 - in;
    __syncthreads();
  }
  if (c < columns) y[blockIdx.x * columns + c] = buffer[in][c];
  if (c == 0) totals[blockIdx.x] = buffer[in][columns - 1];
}
torch::Tensor cumsum(torch::Tensor x) {
  TORCH_CHECK(x.size(1) <= 128, "at most 128 columns");
  auto y = torch::empty_like(x);
  float* totals = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&totals, x.size(0) * sizeof(float)));
  C10_CUDA_CHECK(cudaMemset(totals, 0, x.size(0) * sizeof(float)));
  scan_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), totals, x.size(1));
  C10_CUDA_CHECK(cudaFree(totals));
  return y;
}
"""
module = load_inline(
    name="cumsum", cpp_sources="torch::Tensor cumsum(torch::Tensor x);", cuda_sources=SOURCE, functions=["cumsum"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.cumsum(x)
