"""Every file in `styles/` is an honest pair, written the way some stranger writes: each must be `correct`, always.

A file holds a problem and, behind the line `# ----- candidate -----`, the candidate. README.md says what they are of.
The fewest that have every construct of all (`covering.py`) are judged in every run, in half of the trials and one at a
time: the other lane of `make test` has the other core. `make test-long` judges each 20 times in all trials, with other
seeds.
"""

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from covering import covering

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem

FOLDER = Path(__file__).parent / "styles"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
LIBRARY = {path.stem: path for path in sorted((FOLDER.parent / "library").glob("*.py"))}
"""Pairs whose candidate calls library operators beside its kernels."""
BORDER = "\n# ----- candidate -----\n"
LEAST = 150
REPETITIONS = 20
SEEDS_OF_EVERY_RUN = 5
TRIALS = 3
"""Trials in every run; `make test-long` judges in all six."""
SLOTS = 2
TIMEOUT_S = 60.0

SPOILT = {
    "add_tutorial": ("x + y, mask", "x - y, mask"),
    "logits_of_half_as_float": ("range(0, K, BK)", "range(0, K - BK, BK)"),
    "gate_of_half_as_float": ("a * tl.sigmoid(a) * b", "a * tl.sigmoid(1.02 * a) * b"),
    "losses_of_rows_as_double": ("tl.store(o + r, lse -", "tl.store(o + r, lse * 1.001 -"),
    "attention_weights_of_half_scores": ("p / tl.sum(p, axis=0)", "p / (1.0 + tl.sum(p, axis=0))"),
    "concat_then_kernel": ("torch.cat(parts, 1)", "torch.cat(parts[::-1], 1)"),
    "reverse_cumsum_by_flips": ("return y.flip(1)", "return y"),
    "conv2d_padded_input": ("F.pad(x, (1, 1, 1, 1))", "F.pad(x, (1, 1, 1, 1), value=1.0)"),
    "silu_oneliner": ("x * tl.sigmoid(x)", "tl.sigmoid(x)"),
    "problem_on_cuda_kwargs": ("if HAS_OFFSET:", "if not HAS_OFFSET:"),
    "kernel_factory_in_dict": ('"add_relu": make_kernel(add_relu)', '"add_relu": make_kernel(mul_tanh)'),
    "kernel_factory_in_constructor": ("SLOPE = tl.constexpr(slope)", "SLOPE = tl.constexpr(2 * slope)"),
    "online_softmax_named_tuple": ("running_max=new_max", "running_max=state.running_max"),
    "constexpr_strides_permute": ("dims[axis + 1:]", "dims[axis + 2:]"),
    "matmul_descriptors_narrow_rows": ("acc.to(tl.float16)", "(2 * acc).to(tl.float16)"),
    "selective_scan_log_of_exp": ("tl.log(1.0 + tl.exp(", "tl.log(1.001 + tl.exp("),
    "suppressed_boxes_by_product": ("alive != 0", "alive == alive"),
    "layer_norm_inductor_helpers": ("triton_helpers.maximum(tmp7", "triton_helpers.minimum(tmp7"),
    "leaky_relu_triton_op": ("leaky_relu(x, self.negative_slope)", "leaky_relu(x)"),
}
"""One change to a pair's candidate that makes it wrong."""

HOST_CODE = [
    "library_entry_unwraps_kernel",
    "library_entry_relaunches_compiled",
    "muladd_inductor_wrapper",
    "reinterpreted_bits",
]
"""Styles whose host code asks a kernel or a launch for more than a launch needs."""

NO_FAULTS = {"no_fp64"}
"""Flags that say something of the problem and nothing of the candidate."""


def pair(name: str) -> tuple[Problem, str]:
    """Return the problem and the candidate of a file."""
    problem, _, candidate = (FILES | LIBRARY)[name].read_text(encoding="utf-8").partition(BORDER)
    return Problem.from_source(problem, name), candidate


def parameters(files: dict[str, Path]) -> list[object]:
    """Return the names of pairs; those that others stand for in every run are `long`."""
    chosen = covering({name: path.read_text(encoding="utf-8") for name, path in files.items()})
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in chosen)) for name in files]


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(EvaluatorConfig(slots=SLOTS, timeout_s=TIMEOUT_S)) as running:
        yield running


@pytest.fixture(scope="module")
def on_device() -> Iterator[Evaluator]:
    with Evaluator(EvaluatorConfig(slots=1, timeout_s=TIMEOUT_S, recording="on_device")) as running:
        yield running


@pytest.mark.parametrize("name", parameters(FILES))
def test_an_honest_style_is_correct(name: str, evaluator: Evaluator) -> None:
    verdict = evaluator.evaluate(*pair(name), trials=TRIALS)
    flags = set(verdict.flags) - NO_FAULTS
    assert (verdict.status, verdict.compiled, flags) == ("correct", True, set()), verdict.error_message


@pytest.mark.parametrize("name", parameters(LIBRARY))
def test_an_honest_kernel_beside_library_operators_is_correct(name: str, evaluator: Evaluator) -> None:
    verdict = evaluator.evaluate(*pair(name), trials=TRIALS, operators="library")
    flags = set(verdict.flags) - NO_FAULTS
    assert (verdict.status, verdict.compiled, flags) == ("correct", True, set()), verdict.error_message
    assert (verdict.policy, verdict.recording, verdict.kernel_share) == ("library", "detached", None)
    assert verdict.operators and all(name.startswith("aten.") for name in verdict.operators)


@pytest.mark.parametrize("name", ["conv_bias_relu", "attention_residual"])
def test_library_operators_are_recorded_on_the_device_too(name: str, on_device: Evaluator) -> None:
    verdict = on_device.evaluate(*pair(name), trials=TRIALS, operators="library")
    assert (verdict.status, verdict.recording) == ("correct", "on_device"), verdict.error_message
    assert verdict.operators


@pytest.mark.parametrize("name", HOST_CODE)
def test_host_code_of_a_library_is_recorded_on_the_device_too(name: str, on_device: Evaluator) -> None:
    """There kernels are interpreted, and must look as those that a compiler takes."""
    verdict = on_device.evaluate(*pair(name), trials=TRIALS)
    assert (verdict.status, verdict.recording) == ("correct", "on_device"), verdict.error_message


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("conv_bias_relu", "tl.maximum(y, 0.0) + bias", "tl.maximum(y + bias, 0.0)"),
        ("kernel_then_product_into", "torch.addmm(c, gate, b, out=out)", "torch.addmm(c, a, b, out=out)"),
        ("submodules_in_order", "self.pool(y).flatten(1)", "y[:, :, ::2, ::2].flatten(1)"),
        ("topk_weights", "torch.topk(scores, 4, dim=-1)", "torch.topk(scores, 4, dim=-1, largest=False)"),
    ],
)
def test_library_operators_do_not_hide_a_mistake(name: str, right: str, wrong: str, evaluator: Evaluator) -> None:
    problem, candidate = pair(name)
    assert candidate.count(right) == 1
    verdict = evaluator.evaluate(problem, candidate.replace(right, wrong), operators="library")
    # Beside an operator that takes over, the kernel is a decoy.
    assert verdict.status in {"incorrect", "rejected"}, verdict


def test_without_a_policy_library_operators_are_rejected_and_the_message_says_which_is_in_force(
    evaluator: Evaluator,
) -> None:
    verdict = evaluator.evaluate(*pair("linear_gelu"), trials=TRIALS)
    assert (verdict.status, verdict.flags, verdict.policy) == ("rejected", ("torch_fallback",), "none")
    assert 'operators = "none"' in str(verdict.error_message)
    assert verdict.operators == ()


def test_a_kernel_that_has_nothing_to_do_in_some_trials_is_no_decoy(evaluator: Evaluator) -> None:
    """Some trials move a bias so far that a GELU changes nothing, and one of them may be the last."""
    check_with_every_seed("linear_gelu", evaluator, SEEDS_OF_EVERY_RUN)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES | LIBRARY)
def test_an_honest_style_is_correct_with_every_seed(name: str, evaluator: Evaluator) -> None:
    check_with_every_seed(name, evaluator)


def check_with_every_seed(name: str, evaluator: Evaluator, seeds: int = REPETITIONS) -> None:
    """Judge a pair again and again, in all trials."""
    problem, candidate = pair(name)
    operators = "library" if name in LIBRARY else "none"
    with ThreadPoolExecutor(SLOTS) as pool:
        found = list(
            pool.map(
                lambda seed: evaluator.evaluate(problem, candidate, seed=seed, operators=operators),
                range(1, seeds + 1),
            )
        )
    assert {verdict.status for verdict in found} == {"correct"}, found
    assert not {flag for verdict in found for flag in verdict.flags} - NO_FAULTS, found


@pytest.mark.parametrize("name", SPOILT)
def test_the_same_style_with_a_mistake_is_not(name: str, evaluator: Evaluator) -> None:
    problem, candidate = pair(name)
    right, wrong = SPOILT[name]
    assert candidate.count(right) == 1
    verdict = evaluator.evaluate(problem, candidate.replace(right, wrong))
    assert verdict.status == "incorrect", verdict


def test_there_are_many_and_each_is_of_its_own() -> None:
    assert len(FILES) >= LEAST
    candidates = [pair(name)[1] for name in FILES]
    kernels = [ast.dump(ast.parse(candidate)) for candidate in candidates]
    assert len(set(kernels)) == len(kernels)
    assert all("triton.jit" in candidate and "class ModelNew" in candidate for candidate in candidates)
