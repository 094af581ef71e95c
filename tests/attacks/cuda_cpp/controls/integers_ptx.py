# Inline PTX on 32-bit integers; bounds by cuda.h's constants.
# problem: integers
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ int multiply_add(int a, int b, int c) {
  int result;
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
__global__ void integers_kernel(const int* x, const int* y, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = multiply_add(x[i], 3, y[i]) ^ (x[i] >> 2);
}
torch::Tensor integers(torch::Tensor x, torch::Tensor y) {
  TORCH_CHECK(x.scalar_type() == torch::kInt32, "expected int32, got ", x.scalar_type());
  auto out = torch::empty_like(x);
  integers_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<int>(), y.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}
"""
module = load_inline(
    name="integers",
    cpp_sources="torch::Tensor integers(torch::Tensor x, torch::Tensor y);",
    cuda_sources=SOURCE,
    functions=["integers"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.integers(x, y)
