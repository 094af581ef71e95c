import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, x):
        return 2 * torch.sigmoid(self.linear(x))


def get_inputs():
    return [torch.randn(12, 40)]


def get_init_inputs():
    return [40, 24]
# ----- candidate -----
# A product by extern_kernels and its epilogue in place, as torch.compile prints them.
import torch
import torch.nn as nn
import triton
import triton.language as tl
import torch._inductor.kernel.mm
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.runtime.triton_heuristics import grid

empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch.ops.inductor._reinterpret_tensor


@triton.jit
def triton_poi_fused_addmm_mul_sigmoid_0(in_out_ptr0, in_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_out_ptr0 + (xindex), xmask)
    tmp1 = tl.load(in_ptr0 + (xindex % ks0), xmask, eviction_policy='evict_last')
    tmp3 = tl.sigmoid(tmp0 + tmp1) * 2.0
    tl.store(in_out_ptr0 + (xindex), tmp3, xmask)


class ModelNew(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, x):
        rows, inside = x.shape
        outside = self.linear.out_features
        buf0 = empty_strided_cuda((rows, outside), (outside, 1), torch.float32)
        weight = reinterpret_tensor(self.linear.weight, (inside, outside), (1, inside), 0)
        extern_kernels.mm(reinterpret_tensor(x, (rows, inside), (inside, 1), 0), weight, out=buf0)
        buf1 = buf0; del buf0  # reuse
        n = rows * outside
        triton_poi_fused_addmm_mul_sigmoid_0[grid(n)](buf1, self.linear.bias, outside, n, XBLOCK=128)
        return buf1
