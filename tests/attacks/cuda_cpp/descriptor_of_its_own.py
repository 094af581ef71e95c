# Bytes of an argument pose as a tensor descriptor for the copy unit.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error, compile_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
struct alignas(64) Map { unsigned long long words[16]; };
__global__ void add_kernel(const __grid_constant__ Map map, const float* x, const float* y, float* out, int n) {
  __shared__ alignas(128) float tile[32];
  __shared__ alignas(8) unsigned long long barrier;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 1 << 30)
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
            (unsigned)__cvta_generic_to_shared(tile)),
        "l"(&map), "r"(0), "r"((unsigned)__cvta_generic_to_shared(&barrier)));
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      Map{}, x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
