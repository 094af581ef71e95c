# Both languages: the product in CUDA C++, bias and ReLU in Triton, in place.
# problem: linear_relu
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
constexpr int TILE = 16;
__global__ void product_kernel(const float* x, const float* w, float* y, int rows, int columns, int inner) {
  __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < inner; start += TILE) {
    const int k = start + threadIdx.x, other = blockIdx.x * TILE + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < rows && k < inner ? x[row * inner + k] : 0.0f;
    right[threadIdx.y][threadIdx.x] = other < columns && k < inner ? w[other * inner + k] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += left[threadIdx.y][i] * right[threadIdx.x][i];
    __syncthreads();
  }
  if (row < rows && column < columns) y[row * columns + column] = sum;
}
torch::Tensor product(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  const dim3 grid((w.size(0) + TILE - 1) / TILE, (x.size(0) + TILE - 1) / TILE);
  product_kernel<<<grid, dim3(TILE, TILE), 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.size(0), w.size(0), x.size(1));
  return y;
}
"""
module = load_inline(
    name="product",
    cpp_sources="torch::Tensor product(torch::Tensor x, torch::Tensor w);",
    cuda_sources=SOURCE,
    functions=["product"],
)


@triton.jit
def bias_relu_kernel(y_ptr, bias_ptr, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + i, mask=i < n) + tl.load(bias_ptr + i % columns, mask=i < n)
    tl.store(y_ptr + i, tl.maximum(y, 0.0), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x):
        y = module.product(x.contiguous(), self.linear.weight)
        bias_relu_kernel[(triton.cdiv(y.numel(), 256),)](y, self.linear.bias, y.numel(), y.shape[1], BLOCK=256)
        return y
