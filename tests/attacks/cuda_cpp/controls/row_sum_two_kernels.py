# Two kernels: sums of blocks into a workspace that C++ allocates, then sums of those; a static workspace size.
# problem: row_sum
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
constexpr int kBlock = 128, kPieces = 2;
__global__ void partial_sums(const float* x, float* partial, int columns) {
  __shared__ float buffer[kBlock];
  const int row = blockIdx.x, piece = blockIdx.y;
  float sum = 0;
  for (int c = piece * kBlock + threadIdx.x; c < columns; c += kBlock * kPieces) sum += x[row * columns + c];
  buffer[threadIdx.x] = sum;
  __syncthreads();
  for (int s = kBlock / 2; s; s /= 2) {
    if (threadIdx.x < s) buffer[threadIdx.x] += buffer[threadIdx.x + s];
    __syncthreads();
  }
  if (!threadIdx.x) partial[row * kPieces + piece] = buffer[0];
}
__global__ void final_sums(const float* partial, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int p = 0; p < kPieces; ++p) sum += partial[row * kPieces + p];
  y[row] = sum;
}
torch::Tensor row_sum(torch::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  torch::Tensor partial = torch::empty({rows, kPieces}, x.options()), y = torch::empty({rows}, x.options());
  partial_sums<<<dim3(rows, kPieces), kBlock>>>(x.data_ptr<float>(), partial.data_ptr<float>(), columns);
  final_sums<<<(rows + 63) / 64, 64>>>(partial.data_ptr<float>(), y.data_ptr<float>(), rows);
  return y;
}
"""
module = load_inline(
    name="row_sum", cpp_sources="torch::Tensor row_sum(torch::Tensor x);", cuda_sources=SOURCE, functions=["row_sum"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.row_sum(x)
