"""A small evaluation that a device must pass before it takes requests."""

import asyncio
from typing import Final

from warpsmith.evaluator.client.evaluator import Evaluator
from warpsmith.evaluator.errors import JudgeUnavailableError
from warpsmith.evaluator.languages.registry import language_of
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


async def probe(evaluator: Evaluator, timeout_s: float) -> None:
    """Let an evaluator judge a correct kernel of its language; one without such a kernel is not probed.

    Raises:
        JudgeUnavailableError: it was not judged correct, or where its kernels do not run not compiled, or not in time.
    """
    language, config = language_of(evaluator.config.language), evaluator.config
    if not language.probe:
        return
    evaluation = evaluator.evaluate_async(Problem.from_source(PROBLEM, "probe"), language.probe, trials=2)
    try:
        verdict = await asyncio.wait_for(evaluation, timeout_s)
    except TimeoutError:
        raise _failed(f"it gave no verdict within {timeout_s:g} s") from None
    runs = language.interprets or not config.device_kind.interprets
    if not verdict.correct and (runs or verdict.status != "undecided" or not verdict.compiled):
        raise _failed(f"a correct kernel was judged {verdict.status}: {verdict.error_message}")


def _failed(how: str) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The device failed its probe: {how}.",
        "Check the driver (nvidia-smi, dmesg) and the server's log, then POST /reset_gpu/{id}.",
    )
