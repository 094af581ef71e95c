"""The output layer's kernels: in Triton's interpreter, compiled for GPUs that are not here, and on one that is."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from warpsmith.policy import logprobs
from warpsmith.policy.logprobs import token_logprobs

SUPPORT = Path(__file__).parent / "support"


def run_python(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# In the interpreter ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interpreted(tiny_dir):
    """Errors by case, as the program tells them."""
    pytest.importorskip("triton")
    return json.loads(run_python(SUPPORT / "interpreted_head_kernels.py", tiny_dir, TRITON_INTERPRET="1"))


@pytest.mark.slow
def test_every_case_is_as_near_to_double_precision_as_rounding_allows(interpreted):
    errors = {(name, what): error for name, case in interpreted.items() for what, error in case.items()}
    # An error that is no number is no small one.
    wrong = {key: error for key, error in errors.items() if key[1] in ("figures", "gradient") and not error <= 1}
    assert wrong == {}
    assert len(interpreted) == 49


@pytest.mark.slow
def test_a_logit_that_is_no_number_is_not_hidden(interpreted):
    assert interpreted["NaN"]["is_nan"] == [[False] * 3, [True] * 3]


@pytest.mark.slow
def test_the_kernels_get_chunks_of_the_size_that_was_asked(interpreted):
    # 20 tokens are predicted, 8 at a time, on the way there and back.
    assert interpreted["model"]["chunks"] == [8, 8, 4] * 2


# Where they are used ---------------------------------------------------------------------------------------------

WITHOUT_TRITON = """
import sys

import torch
from warpsmith.policy.loading import load_policy

policy = load_policy(sys.argv[1])
for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
    del sys.modules[name]
sys.modules["triton"] = None  # an import of it fails from here on

from warpsmith.policy.logprobs import token_logprobs

ids = torch.arange(3, 9)[None]
token_logprobs(policy.model, ids, torch.ones_like(ids))[0].sum().backward()
assert "warpsmith.policy.head_kernels" not in sys.modules
"""


def test_a_cpu_needs_no_triton(tiny_dir):
    run_python("-c", WITHOUT_TRITON, tiny_dir)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("name", ["_statistics_kernel", "_gradient_kernel"])
def test_they_compile_for_a_gpu_that_is_not_here(name, dtype, arch, tmp_path, monkeypatch):
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from warpsmith.policy import head_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = {
        "logits_ptr": f"*{dtype}", "targets_ptr": "*i64", "figures_ptr": "*fp32", "grad_ptr": "*fp32",
        "stride": "i32", "vocabulary": "i32", "inverse_temperature": "fp32", "BLOCK": "constexpr",
    }  # fmt: skip
    kernel = getattr(head_kernels, name)
    place = kernel.arg_names.index("BLOCK")
    source = ASTSource(kernel, {key: types[key] for key in kernel.arg_names}, constexprs={(place,): head_kernels.BLOCK})
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=head_kernels.LAUNCH_OPTIONS)
    assert made.asm["cubin"]


# On a GPU --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cuda_model():
    """A model in bf16 with a vocabulary that is no multiple of a block."""
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        "qwen3", vocab_size=5003, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        head_dim=16, num_key_value_heads=2, initializer_range=0.3, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").to("cuda", torch.bfloat16).eval()


def figures(model, monkeypatch, *, fused):
    """Both figures of every token, and the gradients of a sum that weighs each differently; chunks of 20 tokens."""
    from warpsmith.policy import head_kernels

    calls = []
    with monkeypatch.context() as patch:
        if not fused:
            patch.setattr(logprobs, "is_fusable", lambda hidden, projection: False)
        kernel = head_kernels.statistics
        patch.setattr(head_kernels, "statistics", lambda *given: (calls.append(1), kernel(*given))[1])
        ids = torch.randint(0, 5003, (2, 64), generator=torch.Generator().manual_seed(1)).cuda()
        got = torch.stack(token_logprobs(model, ids, torch.ones_like(ids), 0.7, logits_at_once=20 * 5003))
        weights = torch.randn(got.shape, generator=torch.Generator().manual_seed(2)).cuda()
        (got * weights).sum().backward()
    assert len(calls) == (7 if fused else 0)
    gradients = {name: parameter.grad.float() for name, parameter in model.named_parameters()}
    model.zero_grad()
    return got.detach(), gradients


@pytest.mark.gpu
def test_on_a_gpu_they_miss_no_more_than_torchs_operations(cuda_model, monkeypatch):
    plain, plain_gradients = figures(cuda_model, monkeypatch, fused=False)
    fused, fused_gradients = figures(cuda_model, monkeypatch, fused=True)
    exact, exact_gradients = figures(copy.deepcopy(cuda_model).float(), monkeypatch, fused=False)
    # The logits are the same ones, rounded by the same matrix product.
    torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-5)
    assert (fused - exact).abs().mean() < 1.05 * (plain - exact).abs().mean() + 1e-5
    for name, right in exact_gradients.items():
        missed = (plain_gradients[name] - right).norm()
        assert (fused_gradients[name] - right).norm() < 1.2 * missed + 1e-3 * right.norm(), name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_on_a_gpu_in_the_other_dtypes(cuda_model, monkeypatch, dtype):
    model = cuda_model.to(dtype)
    plain, plain_gradients = figures(model, monkeypatch, fused=False)
    fused, fused_gradients = figures(model, monkeypatch, fused=True)
    torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-5)
    for name, expected in plain_gradients.items():
        gap = (fused_gradients[name] - expected).norm()
        assert gap < (1e-2 if dtype == torch.float16 else 1e-4) * expected.norm(), name


@pytest.mark.gpu
def test_on_a_gpu_one_chunk_of_logits_is_held():
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    vocabulary, hidden = 2**17, 64
    chunk = 2 * logprobs.FUSED_LOGITS_AT_ONCE
    size = logprobs.FUSED_LOGITS_AT_ONCE // vocabulary
    options = {"device": "cuda", "dtype": torch.bfloat16, "requires_grad": True}
    hidden_MC, weight_VC = torch.randn(2 * size, hidden, **options), torch.randn(vocabulary, hidden, **options)
    targets = torch.arange(2 * size, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    stats = logprobs.linear_stats(hidden_MC, weight_VC, None, logprobs.Work(targets, 1.0, size, fused=True))
    stats.sum().backward()
    assert chunk <= torch.cuda.max_memory_allocated() - before < 1.5 * chunk
