# Block sizes chosen among instances of a template, by the shape.
# problem: bias
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNEL = """
template <int kBlock>
__global__ void __launch_bounds__(kBlock)
scale_bias(const float* x, const float* bias, float* y, int rows, int columns) {
  for (int c = threadIdx.x; c < columns; c += kBlock)
    y[blockIdx.x * columns + c] = fmaf(x[blockIdx.x * columns + c], 2.0f, bias[c]);
}
"""
CASES = "\n".join(
    f"if (columns <= {size}) {{ scale_bias<{size}><<<rows, {size}>>>(x.data_ptr<float>(), b.data_ptr<float>(), "
    f"y.data_ptr<float>(), rows, columns); return y; }}"
    for size in (32, 64, 128, 256)
)
HOST = (
    "torch::Tensor scale_and_bias(torch::Tensor x, torch::Tensor b) {\n"
    "  auto y = torch::empty_like(x);\n  const int rows = x.size(0), columns = x.size(1);\n" + CASES + "\n"
    '  TORCH_CHECK(false, "at most 256 columns, not ", columns);\n}\n'
)
module = load_inline(
    name="bias",
    cpp_sources="torch::Tensor scale_and_bias(torch::Tensor x, torch::Tensor b);",
    cuda_sources=[KERNEL, HOST],
    functions=["scale_and_bias"],
)


class ModelNew(nn.Module):
    def forward(self, x, bias):
        return module.scale_and_bias(x, bias)
