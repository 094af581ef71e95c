import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.sigmoid(x) * y


def get_inputs():
    return [torch.randn(37, 50), torch.randn(37, 50)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

triton_helpers.set_driver_to_gpu()


@triton_heuristics.pointwise(size_hints={"x": 2048}, filename=__file__, triton_meta={}, inductor_meta={})
@triton.jit
def triton_poi_fused_mul_sigmoid_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tmp1 = tl.load(in_ptr1 + xindex, xmask)
    tl.store(out_ptr0 + xindex, tl.sigmoid(tmp0) * tmp1, xmask)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        triton_poi_fused_mul_sigmoid_0.run(x, y, out, x.numel(), stream=0)
        return out
