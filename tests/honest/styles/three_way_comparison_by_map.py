import torch
import torch.nn as nn


class Model(nn.Module):
    """-1, 0 or 1 where a score is below, inside or above a band of tolerances."""

    def forward(self, score, tolerance):
        band = tolerance.abs()
        return torch.where(score < -band, -1, torch.where(score > band, 1, 0)).to(torch.int32)


def get_inputs():
    return [torch.randn(9, 11), torch.rand(9, 11)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Branches for single elements, each with a constant of its own."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def side_of(score, tolerance):
    if score < -tolerance:
        return -1
    elif score > tolerance:
        return 1
    else:
        return 0


@triton.jit
def sides(score_ptr, tolerance_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    score = tl.load(score_ptr + at, mask=inside, other=0.0)
    tolerance = tl.abs(tl.load(tolerance_ptr + at, mask=inside, other=0.0))
    tl.store(out_ptr + at, tl.map_elementwise(side_of, score, tolerance), mask=inside)


class ModelNew(nn.Module):
    def forward(self, score, tolerance):
        score, tolerance = score.contiguous(), tolerance.contiguous()
        out = torch.empty(score.shape, dtype=torch.int32, device=score.device)
        n = score.numel()
        sides[(triton.cdiv(n, 64),)](score, tolerance, out, n, BLOCK=64)
        return out
