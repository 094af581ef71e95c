# problem: add
# device: cuda
# permitted: incorrect, rejected, runtime_error
# Has the driver assemble and launch a kernel that no compiler of ours has seen, beside one of the source for show.
import ctypes

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


ASSEMBLY = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry total(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n)
{
    .reg .pred %past;
    .reg .b32 %at, %block, %size, %n;
    .reg .b64 %a, %b, %c, %step;
    .reg .f32 %left, %right;
    mov.u32 %at, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mad.lo.u32 %at, %block, %size, %at;
    ld.param.u32 %n, [n];
    setp.ge.u32 %past, %at, %n;
    @%past ret;
    ld.param.u64 %a, [x];
    ld.param.u64 %b, [y];
    ld.param.u64 %c, [out];
    mul.wide.u32 %step, %at, 4;
    add.u64 %a, %a, %step;
    add.u64 %b, %b, %step;
    add.u64 %c, %c, %step;
    ld.global.f32 %left, [%a];
    ld.global.f32 %right, [%b];
    add.f32 %left, %left, %right;
    st.global.f32 [%c], %left;
    ret;
}
"""


def assembled():
    driver, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), ASSEMBLY + b"\0") == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"total") == 0
    return driver, function


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = add(x, x), x.numel()
        driver, function = assembled()
        values = [*(ctypes.c_uint64(tensor.data_ptr()) for tensor in (x, y, out)), ctypes.c_uint32(n)]
        pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid = (ctypes.c_uint(triton.cdiv(n, 256)), 1, 1)
        assert driver.cuLaunchKernel(function, *grid, 256, 1, 1, 0, stream, pointers, None) == 0
        return out
