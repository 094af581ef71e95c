# A constructor of the module executes a shell and kills its parent.
# problem: add
# permitted: undecided, runtime_error
# permitted on cuda: runtime_error, correct
# harmless: nothing was executed, and the kernel is honest
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <csignal>
#include <unistd.h>
__attribute__((constructor)) static void escape() {
  char* const arguments[] = {const_cast<char*>("/bin/sh"), nullptr};
  execve("/bin/sh", arguments, nullptr);
  kill(getppid(), SIGKILL);
}
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
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
