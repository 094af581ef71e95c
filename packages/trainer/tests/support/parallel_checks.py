"""Compares what several ranks computed, by `parallel_worker`, with what one did."""

from pathlib import Path
from typing import Any

import pytest
import torch
from adapter_training import plain_logprobs
from safetensors.torch import load_file
from torch import Tensor

from warpsmith.policy.loading import load_policy
from warpsmith.trainer.weights.consolidate import consolidate

BFLOAT16 = "bfloat16"
BFLOAT16_SHARE = 0.03
"""Largest gap in bf16, as a share of a tensor's norm: bf16 has 0.8%, and twice that was seen between two orders.

Tensors are compared one by one: to a share of the largest gradient of all, a small tensor could be wrong as a whole.
"""


def alone_case(case: str) -> str:
    """Return the case of one rank with which a case is compared: a gradient is that of one padded micro-batch."""
    kind, *of = case.split(":")
    if kind == "training":
        return case
    _, _, _, preset, seed, *dtype = of
    # In bf16, stage 0 would sum in bf16 too.
    return ":".join(("gradient", "1" if BFLOAT16 in dtype else "0", "10000:padded", preset, seed, *dtype))


def check_case(model: Path, case: str, found: Any, expected: Any, folder: Path, share: float = 1e-6) -> None:
    """Check what ranks found in a case against what one rank did; `share` bounds a gradient's gaps in fp32.

    Args:
        model: the policy.
        case: as for `parallel_worker`.
        found: of several ranks.
        expected: of one rank, for `alone_case(case)`.
        folder: where the ranks kept and exported the model.
        share: largest gap allowed, as a share of the largest element of all gradients.
    """
    if case.startswith("gradient"):
        check_gradient(case, found, expected, share)
    else:
        check_training(model, case, found, expected, folder)


def largest_gap(found: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[float, str]:
    """Return the largest gap between two sets of tensors, as a share of the largest number, and where it is."""
    assert found.keys() == expected.keys()
    scale = max(value.abs().max().item() for value in expected.values())
    assert scale > 1e-3
    gaps = {name: (found[name].reshape(value.shape) - value).abs().max().item() for name, value in expected.items()}
    # Written so that NaN is the largest.
    worst = max(gaps, key=lambda name: (gaps[name] != gaps[name], gaps[name]))
    return gaps[worst] / scale, worst


def norm_gap(found: dict[str, Tensor], expected: dict[str, Tensor]) -> tuple[float, str]:
    """Return the largest gap in norm between two tensors, as a share of the norm, and the tensor's name."""
    assert found.keys() == expected.keys()
    gaps = {
        name: ((found[name].reshape(value.shape) - value).norm() / value.norm()).item()
        for name, value in expected.items()
    }
    worst = max(gaps, key=lambda name: (gaps[name] != gaps[name], gaps[name]))
    return gaps[worst], worst


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], case: str, share: float = 1e-6) -> None:
    """Check tensors to a share of the largest number in all of them."""
    gap, name = largest_gap(found, expected)
    scale = max(value.abs().max().item() for value in expected.values())
    assert gap <= share + 1e-7 / scale, f"{case}: {name} differs by {gap} of the largest number, {scale}"


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    differ = [name for name, value in expected.items() if not torch.equal(found[name], value)]
    assert not differ


def check_gradient(
    case: str,
    found: tuple[dict[str, Tensor], dict[str, float]],
    expected: tuple[dict[str, Tensor], dict[str, float]],
    share: float = 1e-6,
) -> None:
    bf16 = case.endswith(BFLOAT16)
    if bf16:
        gap, worst = norm_gap(found[0], expected[0])
        assert gap <= BFLOAT16_SHARE, f"{case}: {worst} differs by {gap} of its norm"
    else:
        assert_same(found[0], expected[0], case, share)
    for name in ("loss", "grad_norm", "entropy", "ratio_mean/0"):
        near = pytest.approx(expected[1][name], rel=0.02 if bf16 else 1e-5, abs=0.01 if bf16 else 1e-6)
        assert found[1][name] == near, f"{case}: {name}"


def check_training(model: Path, case: str, found: dict[str, Any], expected: dict[str, Any], folder: Path) -> None:
    """Compare with one rank, and what was kept, sent and exported with what was trained."""
    _, _, dtype, what = case.split(":")
    stored = {name: value.to(getattr(torch, dtype)) for name, value in load_file(model / "model.safetensors").items()}
    if what == "weights":
        assert_equal(found["start"], stored)
    assert_equal(found["start"], expected["start"])
    assert_equal(found["resumed"], found["gone_on"])
    assert found["apart"] == []
    for sent in ("payload", "streamed"):
        assert_equal(found[sent], found["weights"])
    assert found["announced"] == {
        name: (str(value.dtype).removeprefix("torch."), tuple(value.shape)) for name, value in found["weights"].items()
    }
    exported = folder / "run" / "final_model"
    assert_equal(load_file(exported / "model.safetensors"), found["weights"])
    kept = consolidate(folder / "run", folder / "kept")
    if what == "weights":
        assert_equal(load_file(kept / "model.safetensors"), found["weights"])
    gap = 1e-4 if dtype == "float32" else 0.05
    torch.testing.assert_close(plain_logprobs(load_policy(exported, dtype)), found["logprobs"], atol=gap, rtol=gap)
    torch.testing.assert_close(torch.tensor(found["probe"]), found["logprobs"], atol=gap, rtol=0)
    if dtype == "float32":
        torch.testing.assert_close(found["logprobs"], expected["logprobs"], atol=1e-4, rtol=1e-4)
        assert found["norms"] == pytest.approx(expected["norms"], rel=1e-4)
        assert_same(found["gone_on"], expected["gone_on"], case, 1e-4)
        if what == "weights":
            assert expected["norms"][0] > 1.0, "nothing was clipped"
