# Two kernels pass a value in a variable of the module, which each call begins at its initial value.
# problem: squared_sum
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ float totals[4096];
__global__ void add_squares(const float* x, int columns) {
  const int row = blockIdx.y;
  float sum = 0.f;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x)
    sum += x[row * columns + c] * x[row * columns + c];
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(&totals[row], sum);
}
__global__ void publish(float* out, int rows) {
  const int row = threadIdx.x + blockIdx.x * blockDim.x;
  if (row >= rows) return;
  out[row] = totals[row];
  totals[row] = 0.f;
}
at::Tensor squared_sum(at::Tensor x) {
  const int rows = x.size(0), columns = x.size(1);
  TORCH_CHECK(rows <= 4096, "too many rows");
  auto out = at::empty({rows}, x.options());
  add_squares<<<dim3(2, rows), 32>>>(x.data_ptr<float>(), columns);
  publish<<<(rows + 63) / 64, 64>>>(out.data_ptr<float>(), rows);
  return out;
}
"""
module = load_inline("squared_sum", "at::Tensor squared_sum(at::Tensor x);", SOURCE, functions=["squared_sum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.squared_sum(x)
