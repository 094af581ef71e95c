# Strided inputs, whose strides go to the kernel in a struct passed by value.
# problem: transposed
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
struct Matrix {
  float* data;
  int64_t row, column;
  __device__ float& at(int r, int c) const { return data[r * row + c * column]; }
};
static Matrix matrix_of(const torch::Tensor& t) { return {t.data_ptr<float>(), t.stride(0), t.stride(1)}; }

__global__ void exp_product(Matrix x, Matrix y, Matrix out, int rows, int columns) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (c < columns) out.at(r, c) = expf(x.at(r, c)) * y.at(r, c);
}
torch::Tensor run(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty(x.sizes(), x.options());
  const dim3 grid((x.size(1) + 63) / 64, x.size(0));
  exp_product<<<grid, 64>>>(matrix_of(x), matrix_of(y), matrix_of(out), x.size(0), x.size(1));
  return out;
}
"""
module = load_inline(
    name="transposed",
    cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor y);",
    cuda_sources=SOURCE,
    functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.run(x, y)
