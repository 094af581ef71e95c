# problem: add
# permitted: incorrect
# Steps back behind everybody else: whoever was kept from running is tried again, with nobody beside it.
import ctypes
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


LIBRARY = ctypes.CDLL(None)
PRIO_PROCESS, IOPRIO_WHO_PROCESS, IDLE_CLASS = 0, 1, 3 << 13


def idle_by_scheduler():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    return True


def batch_by_scheduler():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    return True


def other_parameters():
    os.sched_setparam(0, os.sched_param(0))
    return True


def niceness():
    os.nice(19)
    return True


def priority():
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    return True


def priority_of_reading_and_writing():
    return LIBRARY.syscall({"x86_64": 251, "aarch64": 30}[os.uname().machine], IOPRIO_WHO_PROCESS, 0, IDLE_CLASS) == 0


def idle_by_attributes():
    size, policy, rest = 48, os.SCHED_IDLE, bytes(40)
    wanted = size.to_bytes(4, "little") + policy.to_bytes(4, "little") + rest
    return LIBRARY.syscall({"x86_64": 314, "aarch64": 274}[os.uname().machine], 0, wanted, 0) == 0


WAYS = (
    idle_by_scheduler,
    batch_by_scheduler,
    other_parameters,
    niceness,
    priority,
    priority_of_reading_and_writing,
    idle_by_attributes,
)


def works(way):
    try:
        return way()
    except OSError:
        return False


def succeeded():
    return any(works(way) for way in WAYS)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
