"""The plan's formulas against the tensors of real passes and real ZeRO runs."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from warpsmith.policy import kernels
from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.config import ZeroSection
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.planning.parts import peak
from warpsmith.trainer.planning.shapes import read_shape
from warpsmith.trainer.planning.training import Training, activations, head_gradient, layer_token_bytes, state_parts

WORKER = Path(__file__).parents[1] / "support" / "memory_worker.py"
TOKENS = 192


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Larger than the shared one, so that what does not grow with the model is small beside it."""
    texts = [f"def kernel_{number}(x, y): return x + y * {number}\n" for number in range(200)]
    return build_tiny(
        tmp_path_factory.mktemp("model") / "tiny", texts, vocab_size=600, layers=4, hidden=256, heads=4, kv_heads=2
    )


def kept_bytes(run: Callable[[], torch.Tensor], parameters: set[int]) -> int:
    """Bytes that autograd keeps of a forward pass, each storage once, parameters left out."""
    seen: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            seen[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = run()
    assert result.requires_grad
    return sum(storage.nbytes() for storage in seen.values())


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_are_those_that_autograd_keeps(model: Path, dtype: str, checkpointing: bool) -> None:
    policy = load_policy(model, dtype).model.train()
    if checkpointing:
        policy.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    ids_BT = torch.randint(3, 300, (1, TOKENS))
    own = {parameter.untyped_storage().data_ptr() for parameter in policy.parameters()}

    def forward() -> torch.Tensor:
        return token_logprobs(policy, ids_BT, torch.ones_like(ids_BT))[0].sum()

    kept = kept_bytes(forward, own)
    zero = ZeroSection(micro_batch_tokens=TOKENS)
    shape = read_shape(model)
    width = 4 if dtype == "float32" else 2
    run = Training(shape, width, zero, 1, TOKENS, checkpointing)
    if not checkpointing:
        assert kept == pytest.approx(activations(run), rel=0.12)
        return
    # A layer's own tensors are kept only on the way back through it, and the layers' inputs are held by checkpoint
    # itself, partly where this hook does not see them.
    planned = activations(run) - run.tokens * layer_token_bytes(run)
    assert kept <= planned <= 1.5 * kept


class Idle:
    """A Triton kernel that is launched and computes nothing."""

    def __getitem__(self, _: object) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is None, reason="needs the policy's extra liger")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_so_are_those_by_liger_kernel(model: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept hangs on shapes alone, so the kernels need not run, and need no GPU."""
    from liger_kernel.ops import rms_norm, rope, swiglu

    monkeypatch.setattr(kernels, "triton_runs", lambda: True)
    for module, kernel in ((rms_norm, "_rms_norm"), (swiglu, "_swiglu")):
        monkeypatch.setattr(module, f"{kernel}_forward_kernel", Idle())
    monkeypatch.setattr(rope, "_triton_rope", Idle())
    shape, width = read_shape(model), 4 if dtype == "float32" else 2
    planned, kept = [], []
    for name in ("torch", "liger"):
        policy = load_policy(model, dtype, kernels=name).model.train()
        own = {parameter.untyped_storage().data_ptr() for parameter in policy.parameters()}
        ids_BT = torch.randint(3, 300, (1, TOKENS))
        kept.append(kept_bytes(partial(total, policy, ids_BT), own))
        run = Training(shape, width, ZeroSection(micro_batch_tokens=TOKENS), 1, TOKENS, False, kernels=name)
        planned.append(activations(run))
    assert kept[1] == pytest.approx(planned[1], rel=0.12)
    # The difference is what the formula says about the kernels, and nothing of it is hidden in what both keep.
    assert kept[0] - kept[1] == pytest.approx(planned[0] - planned[1], rel=0.25)


def total(policy: torch.nn.Module, ids_BT: torch.Tensor) -> torch.Tensor:
    return token_logprobs(policy, ids_BT, torch.ones_like(ids_BT))[0].sum()


def test_the_output_layers_gradient_is_counted(model: Path) -> None:
    shape = read_shape(model)
    run = Training(shape, 2, ZeroSection(), 1, TOKENS, checkpointing=False)
    assert head_gradient(run) == 6 * shape.vocabulary * shape.hidden


CASES = ("0:float32", "1:float32", "2:float32", "3:float32", "1:bfloat16", "2:bfloat16", "3:bfloat16")


@pytest.mark.slow
@pytest.mark.long
def test_states_are_those_of_real_ranks(model: Path, tmp_path: Path) -> None:
    """Two ranks: weights, gradients and Adam's state while Adam works, by stage and dtype."""
    assert importlib.util.find_spec("deepspeed") is not None
    out = tmp_path / "measured.json"
    port = str(free_port())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    subprocess.run([*launcher, str(WORKER), str(model), str(out), *CASES], check=True, env=environment, timeout=280)
    measured = json.loads(out.read_text())
    shape = read_shape(model)
    for case in CASES:
        stage, dtype = case.split(":")
        zero = ZeroSection.model_validate({"stage": int(stage)})
        width = 4 if dtype == "float32" else 2
        run = Training(shape, width, zero, 2, TOKENS, checkpointing=False)
        parts = [part for part in state_parts(run) if part.when != "pass"]
        assert measured[case]["adam"] == pytest.approx(peak(parts), rel=0.02), case
