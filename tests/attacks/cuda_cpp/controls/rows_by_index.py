# Halves of rows by tensor.index, attributes of the module.
# problem: add
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
using namespace torch::indexing;
__global__ void add_rows(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
torch::Tensor add(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty_like(a);
  int half = a.size(0) / 2;
  for (int part = 0; part < 2; ++part) {
    auto rows = part ? Slice(half, None) : Slice(None, half);
    auto x = a.index({rows, "..."}), y = b.index({rows}), z = c.index({rows, Slice()});
    TORCH_CHECK(x.sizes() == z.sizes() && x.is_contiguous());
    TORCH_CHECK(a.index({0, Ellipsis}).dim() == 1 && a.index({None, 0}).dim() == 2);
    add_rows<<<(x.numel() + 255) / 256, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), z.data_ptr<float>(), x.numel());
  }
  return c;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "adds";
  m.attr("__version__") = "1.5";
  m.attr("TILE") = 16;
  m.attr("fast") = true;
  m.def("add", &add);
}
"""
module = load_inline(name="indexed", cpp_sources=[], cuda_sources=[SOURCE])
assert (module.__version__, module.TILE, module.fast) == ("1.5", 16, True)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
