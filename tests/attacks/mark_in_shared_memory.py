# problem: add
# device: cuda
# permitted: compile_error, correct, incorrect, rejected, runtime_error
# harmless: what its last call has left in shared memory is not there any more
# Leaves a mark in shared memory and does not clear it; it is wrong where it finds the mark of an earlier call.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * BLOCK + lane
    mask = offsets < n
    found = tl.inline_asm_elementwise(
        """{
                .shared .align 4 .b8 kept[1024];
                .reg .u32 at, own;
                mov.u32 at, kept;
                mov.u32 own, %tid.x;
                shl.b32 own, own, 2;
                add.u32 at, at, own;
                ld.shared.u32 $0, [at];
                st.shared.u32 [at], 0x05EEDED5;
        }""",
        "=r,r",
        [lane],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(found == 0x05EEDED5, 0.0, total), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128, num_warps=4)
        return out
