"""liger-kernel in a model's body: what transformers' own modules compute, or an error that says why not."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from warpsmith.policy import kernels
from warpsmith.policy.errors import KernelsError
from warpsmith.policy.kernels import MODEL_TYPES, apply_liger, check_kernels
from warpsmith.policy.loading import Policy
from warpsmith.policy.logprobs import token_logprobs

WORKER = Path(__file__).parent / "support" / "liger_worker.py"
needs_liger = pytest.mark.skipif(find_spec("liger_kernel") is None, reason="needs the extra liger")

SWIGLU, ROPE = "_swiglu_forward_kernel", "_triton_rope"
NORM, NORM_BACK, SWIGLU_BACK = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel", "_swiglu_backward_kernel"
# Two layers with two norms each, and the last norm; Qwen3 has norms of queries and keys besides.
PLAIN = {NORM: 5, NORM_BACK: 5, ROPE: 4, SWIGLU: 2, SWIGLU_BACK: 2}
NORMED = {**PLAIN, NORM: 9, NORM_BACK: 9}
# The layers' forward passes twice, the last norm's once.
NORMED_TWICE = {**NORMED, NORM: 17, ROPE: 6, SWIGLU: 4}
PLAIN_TWICE = {**PLAIN, NORM: 9, ROPE: 6, SWIGLU: 4}

CASES = {
    "llama": PLAIN, "mistral": PLAIN, "qwen2": PLAIN, "qwen3": NORMED,
    "llama with biases": PLAIN, "qwen3 with scaled angles": NORMED,
    "packed under a mask": NORMED, "packed with borders": NORMED,
    # Nothing before the first adapter wants a gradient, and the first norm stands there.
    "checkpointed": NORMED_TWICE, "adapted": {**NORMED, NORM_BACK: 8}, "adapted and checkpointed": PLAIN_TWICE,
    "valued": NORMED, "loaded": NORMED,
}  # fmt: skip


SHORT = ("llama", "packed with borders", "adapted and checkpointed", "loaded")
"""Those that are always run: each of the others takes seconds, and combines or repeats these."""


@pytest.fixture(scope="module")
def measured(tiny_dir, request):
    """What the worker found: in a process of its own, since Triton decides on its interpreter when it is imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    parameters = [vars(item.callspec)["params"] for item in request.session.items if hasattr(item, "callspec")]
    asked = {named["case"] for named in parameters if "case" in named} & set(CASES)
    command = [sys.executable, str(WORKER), str(tiny_dir), *asked, "beside"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert not done.returncode, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@needs_liger
@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long]) for name in CASES]
)
def test_figures_and_gradients_are_those_of_transformers_modules(measured, case):
    found = measured[case]
    # Sums of at most 96 terms in another order, in fp32 (2^-24, 6e-8), through two layers: seen were gaps of 6e-6 in
    # log-probabilities of about 10, and 3e-6 of a gradient's norm. A wrong kernel is off by more than a hundredth.
    assert found["figures"] < 5e-5
    assert found["gradients"] < 3e-5
    assert found["number"] > 10
    # Without this a setting that does nothing would pass.
    assert found["launches"] == CASES[case]


@needs_liger
@pytest.mark.slow
def test_no_other_model_is_changed(measured):
    assert measured["beside"]["launches"] == {}
    assert (measured["beside"]["figures"], measured["beside"]["gradients"]) == (0, 0)


@pytest.fixture
def elsewhere(monkeypatch):
    """Pretend that there are liger-kernel and a GPU, as the arguments say."""

    def pretend(*, installed=True, gpu=True):
        monkeypatch.setattr(kernels, "find_spec", lambda name: object() if installed else None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    return pretend


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_models_that_were_tried_are_taken(elsewhere, kind):
    elsewhere()
    check_kernels({"model_type": kind, "hidden_act": "silu"})


def test_without_liger_kernel_it_says_how_to_install_it(elsewhere):
    elsewhere(installed=False)
    with pytest.raises(KernelsError, match="not installed") as caught:
        check_kernels({"model_type": "qwen3"})
    assert "./packages/policy[liger]" in caught.value.remedy
    assert 'policy.kernels = "torch"' in caught.value.remedy


def test_without_a_gpu_it_is_refused_before_weights_are_read(elsewhere, tiny_dir, tmp_path):
    elsewhere(gpu=False)
    (tmp_path / "config.json").write_bytes((tiny_dir / "config.json").read_bytes())
    with pytest.raises(KernelsError, match="need a GPU") as caught:
        Policy.load(tmp_path, kernels="liger")
    assert 'policy.kernels = "torch"' in caught.value.remedy


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "opt"}, "has the type opt"),
        ({"model_type": "gemma2", "hidden_act": "silu"}, "llama, mistral, qwen2, qwen3"),
        ({}, "has the type None"),
        ({"model_type": "llama", "hidden_act": "gelu"}, "this model uses gelu"),
    ],
)
def test_a_model_that_it_would_compute_wrongly_is_refused(elsewhere, config, says):
    elsewhere()
    with pytest.raises(KernelsError, match=says) as caught:
        check_kernels(config)
    assert caught.value.remedy == 'Set policy.kernels = "torch".'


@needs_liger
def test_an_attention_that_rotates_otherwise_is_refused(elsewhere, policy):
    # Before there seems to be a GPU: what is imported with it would look for that.
    import liger_kernel.transformers.monkey_patch  # noqa: F401

    elsewhere()

    class Other(type(policy.model.model.layers[0].self_attn)):
        def forward(self, *inputs, **settings):
            return super().forward(*inputs, **settings)

    for layer in policy.model.model.layers:
        layer.self_attn.__class__ = Other
    with pytest.raises(KernelsError, match="calls no apply_rotary_pos_emb"):
        apply_liger(policy.model)


@needs_liger
@pytest.mark.gpu
@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_on_a_gpu_it_is_as_near_to_fp32_as_transformers_modules(kind):
    """In bf16, rows of 4,096 tokens with 16 heads: enough for liger-kernel's other way to normalise queries."""
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        kind, vocab_size=300, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=16,
        num_key_value_heads=8, head_dim=64, initializer_range=0.1,
    )  # fmt: skip
    ids = torch.randint(0, 300, (1, 4096), generator=torch.Generator().manual_seed(3)).cuda()

    def figures(dtype, liger):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        if liger:
            apply_liger(model)
        model.to("cuda", dtype)
        logprobs, _ = token_logprobs(model, ids, torch.ones_like(ids))
        (logprobs * torch.linspace(-1, 1, ids.numel(), device="cuda")).sum().backward()
        return logprobs.detach(), [parameter.grad.float() for parameter in model.parameters()]

    exact, plain, fused = (
        figures(dtype, liger)
        for dtype, liger in ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True))
    )
    assert not torch.equal(plain[0], fused[0])
    assert (fused[0] - exact[0]).abs().mean() < 1.5 * (plain[0] - exact[0]).abs().mean() + 1e-3
    for right, theirs, ours in zip(exact[1], plain[1], fused[1], strict=True):
        assert (ours - right).norm() < 1.5 * (theirs - right).norm() + 1e-3 * right.norm()
