"""A small evaluation that a device must pass before it takes requests."""

import asyncio
from typing import Final

from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.problem import Problem

PROBLEM: Final = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(8, 120), torch.randn(8, 120)]
"""

CANDIDATE: Final = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + tl.load(y_ptr + at, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
        return out
"""


async def probe(evaluator: Evaluator, timeout_s: float) -> None:
    """Let an evaluator judge a correct kernel.

    Raises:
        JudgeUnavailableError: it was not judged correct, or not in time.
    """
    evaluation = evaluator.evaluate_async(Problem.from_source(PROBLEM, "probe"), CANDIDATE, trials=2)
    try:
        verdict = await asyncio.wait_for(evaluation, timeout_s)
    except TimeoutError:
        raise _failed(f"it gave no verdict within {timeout_s:g} s") from None
    if not verdict.correct:
        raise _failed(f"a correct kernel was judged {verdict.status}: {verdict.error_message}")


def _failed(how: str) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The device failed its probe: {how}.",
        "Check the driver (nvidia-smi, dmesg) and the server's log, then POST /reset_gpu/{id}.",
    )
