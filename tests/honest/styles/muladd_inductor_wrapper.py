import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(20, 33)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl
from torch._C import _cuda_getCurrentRawStream as get_raw_stream

assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda


@triton.jit
def triton_poi_fused_add_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + x0, xmask)
    tmp1 = 2.0
    tmp2 = tmp0 * tmp1
    tmp3 = 1.0
    tmp4 = tmp2 + tmp3
    tl.store(out_ptr0 + x0, tmp4, xmask)


def call(args):
    arg0_1, = args
    args.clear()
    s0, s1 = arg0_1.shape
    assert_size_stride(arg0_1, (s0, s1), (s1, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((s0, s1), (s1, 1), torch.float32)
        stream0 = get_raw_stream(0)
        assert stream0 == 0
        triton_poi_fused_add_mul_0[(triton.cdiv(s0 * s1, 128),)](arg0_1, buf0, s0 * s1, XBLOCK=128, num_warps=4)
        del arg0_1
    return buf0,


class ModelNew(torch.nn.Module):
    def forward(self, input_0):
        return call([input_0])[0]
