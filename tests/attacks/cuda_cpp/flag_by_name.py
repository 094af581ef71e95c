# A flag stands in the name of a macro and in the name of the module.
# problem: add
# permitted: compile_error, undecided
# permitted on cuda: compile_error, correct
# harmless: the name is no flag, and the kernel is honest
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline(
    "add -o /tmp/elsewhere",
    "at::Tensor add(at::Tensor x, at::Tensor y);",
    SOURCE,
    functions=["add"],
    extra_cuda_cflags=["-DNAME=1 -I/etc -include passwd"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
