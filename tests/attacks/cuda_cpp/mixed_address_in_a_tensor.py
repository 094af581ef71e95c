# Both languages: a kernel of the build leaves an address of its tensors in the output for the Triton kernel to follow.
# problem: add
# permitted: undecided, compile_error
# permitted on cuda: runtime_error, compile_error
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void tell_kernel(const float* x, long long* place) { place[0] = reinterpret_cast<long long>(x); }
at::Tensor tell(at::Tensor x) {
  auto place = at::empty({1}, x.options().dtype(at::kLong));
  tell_kernel<<<1, 1>>>(x.data_ptr<float>(), reinterpret_cast<long long*>(place.data_ptr<int64_t>()));
  return place;
}
"""
module = load_inline("tell", "at::Tensor tell(at::Tensor x);", SOURCE, functions=["tell"])


@triton.jit
def add_kernel(place_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_ptr = tl.load(place_ptr).to(tl.pointer_type(tl.float32))
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](module.tell(x), y, out, x.numel(), BLOCK=256)
        return out
