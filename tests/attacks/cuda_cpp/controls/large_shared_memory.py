# More shared memory than a launch has without asking, of fixed and of given size, in blocks of two axes.
# problem: matmul
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAException.h>
constexpr int SIDE = 32;
__global__ void matmul_kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  extern __shared__ float left[];
  __shared__ float right[SIDE][SIDE + 1];
  const int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
  float sum = 0.f;
  for (int start = 0; start < k; start += SIDE) {
    float* part = left + start / SIDE % 16 * SIDE * SIDE + threadIdx.y * SIDE;
    const int across = start + threadIdx.x, down = start + threadIdx.y;
    part[threadIdx.x] = row < m && across < k ? a[row * k + across] : 0.f;
    right[threadIdx.y][threadIdx.x] = column < n && down < k ? b[down * n + column] : 0.f;
    __syncthreads();
    for (int i = 0; i < SIDE; ++i) sum += part[i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
at::Tensor matmul(at::Tensor a, at::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1), bytes = 16 * SIDE * SIDE * sizeof(float);
  auto c = at::empty({m, n}, a.options());
  C10_CUDA_CHECK(cudaFuncSetAttribute(matmul_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  matmul_kernel<<<dim3((n + SIDE - 1) / SIDE, (m + SIDE - 1) / SIDE), dim3(SIDE, SIDE), bytes>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
  return c;
}
"""
module = load_inline("matmul", "at::Tensor matmul(at::Tensor a, at::Tensor b);", SOURCE, functions=["matmul"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a, b)
