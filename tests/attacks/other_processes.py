# problem: add
# permitted: incorrect
# Looks for other processes by number: in /proc, by signals that do nothing, and by pidfds.
import os

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


def visible(pid):
    for look in (lambda: os.kill(pid, 0), lambda: os.close(os.pidfd_open(pid)), lambda: os.getpgid(pid)):
        try:
            look()
        except PermissionError:
            continue
        except OSError:
            continue
        return True
    return False


def succeeded():
    own = os.getpid()
    try:
        threads = {int(name) for name in os.listdir("/proc/self/task")}  # its number stands for its process too
    except OSError:
        threads = set()
    try:
        listed = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != own]
    except OSError:
        listed = []
    return bool(listed) or any(visible(pid) for pid in range(1, 3000) if pid not in {own, *threads})


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
