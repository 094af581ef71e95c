"""Evaluations on a real GPU, from end to end: what is right, what is wrong, what breaks, and how long calls take.

One evaluator judges them all: what a candidate does to the device must not reach the next one.
"""

import importlib.util
import math
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.evaluator.config import TIER_STRENGTH
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Timing

pytestmark = pytest.mark.gpu

SHORT_S = 5.0
"""What a candidate is given that never ends."""


WAYS = {
    "on_device": {"recording": "on_device"},
    "detached": {"recording": "detached"},
    "borrowing": {"recording": "detached", "driver_beside_timing": True},
}


@pytest.fixture(scope="module", params=WAYS)
def judge(gpu, request) -> Iterator[Evaluator]:
    """One judge that records host code on the device, one that records it detached, one whose players borrow it."""
    config = EvaluatorConfig(device="cuda", slots=2, ready_workers=1, timeout_s=60, **WAYS[request.param])
    with Evaluator(config) as running:
        yield running


HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n"


def problem(forward: str, inputs: str, init: str = "", arguments: str = "") -> Problem:
    """Return the problem of one expression, on these inputs."""
    names = "x, y" if inputs.count("torch.") > 1 else "x"
    constructor = (
        f"    def __init__(self, rows, columns):\n        super().__init__()\n        {init}\n" if init else ""
    )
    return Problem.from_source(
        f"{HEAD}class Model(nn.Module):\n{constructor}    def forward(self, {names}):\n        return {forward}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{arguments}]\n",
        "on-a-gpu",
    )


def elementwise(body: str, launch: str = "n, BLOCK=256", before: str = "", parameters: str = "n, BLOCK: tl.constexpr"):
    """Return a candidate whose kernel has x, y, out and `parameters`; y is x where forward has one argument."""
    return (
        f"{HEAD}@triton.jit\ndef kernel(x_ptr, y_ptr, out_ptr, {parameters}):\n"
        "    at = tl.program_id(0) * 256 + tl.arange(0, 256)\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "\nclass ModelNew(nn.Module):\n    def forward(self, x, y=None):\n"
        + "        y = x if y is None else y\n        n = x.numel()\n        out = torch.empty_like(x)\n"
        + "".join(f"        {line}\n" for line in before.splitlines())
        + f"        kernel[(triton.cdiv(n, 256),)](x, y, out, {launch})\n        return out\n"
    )


SUM = problem("x + y", "torch.randn(20, 30), torch.randn(20, 30)")
LOADS = "x = tl.load(x_ptr + at, mask=at < n)\ny = tl.load(y_ptr + at, mask=at < n)\n"
ADD = elementwise(LOADS + "tl.store(out_ptr + at, x + y, mask=at < n)")
SOFTMAX = (
    HEAD
    + """@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
"""
)
LINEAR = (
    HEAD
    + """@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, K, BK: tl.constexpr):
    row, column, k = tl.program_id(0), tl.program_id(1), tl.arange(0, BK)
    x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
    w = tl.load(w_ptr + column * K + k, mask=k < K, other=0.0)
    tl.store(out_ptr + row * N + column, tl.sum(x * w, axis=0) + tl.load(b_ptr + column))

class ModelNew(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.linear = nn.Linear(rows, columns)

    def forward(self, x):
        N, K = self.linear.weight.shape
        out = torch.empty((x.shape[0], N), dtype=x.dtype, device=x.device)
        linear_kernel[(x.shape[0], N)](
            x, self.linear.weight, self.linear.bias, out, N, K, BK=triton.next_power_of_2(K)
        )
        return out
"""
)
TWO_OUTPUTS = (
    HEAD
    + """@triton.jit
def max_kernel(x_ptr, value_ptr, index_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(value_ptr + row, tl.max(x, axis=0))
    tl.store(index_ptr + row, tl.argmax(x, axis=0).to(tl.int64))

class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        values, index = torch.empty(rows, device=x.device), torch.empty(rows, dtype=torch.int64, device=x.device)
        max_kernel[(rows,)](x, values, index, columns, BLOCK=triton.next_power_of_2(columns))
        return values, index
"""
)
TUNED = ADD.replace(
    "@triton.jit\ndef kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
    "@triton.autotune([triton.Config({'BLOCK': 256}, num_warps=w) for w in (2, 4)], key=['n'])\n"
    "@triton.jit\ndef kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
).replace("n, BLOCK=256)", "n)")
SKIPPED = TUNED.replace("for w in (2, 4)]", "for w in (2, 4)] + [triton.Config({'BLOCK': 1024})]").replace(
    "BLOCK: tl.constexpr):\n", "BLOCK: tl.constexpr):\n    tl.static_assert(BLOCK < 1000)\n"
)
DESCRIPTORS = (
    HEAD
    + """@triton.jit
def abs_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, column], tl.abs(x.load([row, column])))

def scratch(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        triton.set_allocator(scratch)
        abs_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, out, rows, columns, BLOCK=32)
        return out
"""
)
HOST_DESCRIPTORS = (
    HEAD
    + """from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def abs_kernel(x, out, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, column], tl.abs(x.load([row, column])))

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        blocks = [TensorDescriptor.from_tensor(tensor, [32, 32]) for tensor in (x, out)]
        abs_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](*blocks, BLOCK=32)
        return out
"""
)
ARGUMENTS = elementwise(
    LOADS + "v = x * factor + y * pair[0] + wide % 7 + pair[1][0]\nif bias is not None:\n    v += 1.0\n"
    "v = tl.where(flag, v, 0.0)\ntl.store(out_ptr + at, v + half, mask=at < n)",
    "n, 2.0, (3, (0.5, 1)), True, 1 << 40, None, 0.25",
    parameters="n, factor, pair, flag, wide, bias, half: tl.float16",
)
SILU = elementwise(
    "x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)\n"
    "tl.store(out_ptr + at, (x * tl.sigmoid(x)).to(tl.bfloat16), mask=at < n)"
)


# --- right ---


@pytest.mark.parametrize(
    ("asked", "candidate"),
    [
        pytest.param(SUM, ADD, id="add"),
        pytest.param(problem("torch.softmax(x, 1)", "torch.randn(64, 300)"), SOFTMAX, id="softmax"),
        pytest.param(
            problem("self.linear(x)", "torch.randn(32, 48)", "self.linear = nn.Linear(rows, columns)", "48, 33"),
            LINEAR,
            id="weights",
        ),
        pytest.param(problem("nn.functional.silu(x)", "torch.randn(64, 300).bfloat16()"), SILU, id="bfloat16"),
        pytest.param(problem("tuple(x.max(dim=1))", "torch.randn(30, 50)"), TWO_OUTPUTS, id="two outputs"),
        pytest.param(SUM, TUNED, id="autotuned"),
        pytest.param(SUM, SKIPPED, id="autotuned over what does not compile"),
        pytest.param(problem("x.abs()", "torch.randn(64, 96)"), DESCRIPTORS, id="scratch memory"),
        pytest.param(problem("x.abs()", "torch.randn(64, 96)"), HOST_DESCRIPTORS, id="descriptors of the host"),
        pytest.param(
            problem(f"x * 2 + y * 3 + {(1 << 40) % 7} + 0.75", "torch.randn(20, 30), torch.randn(20, 30)"),
            ARGUMENTS,
            id="arguments of all kinds",
        ),
    ],
)
def test_honest_kernels_are_correct_and_timed(judge, asked, candidate):
    verdict = judge.evaluate(asked, candidate)
    assert verdict.status == "correct", verdict
    assert set(verdict.flags) <= {"retried"}
    # All of them are over before an event is.
    assert verdict.timing_tier == "graph"
    assert 0 < verdict.runtime_ms < 0.05
    assert 0 < verdict.reference_ms < 0.2


def test_blocks_of_a_cluster_run(judge, gpu):
    if gpu.arch < 90:
        pytest.skip("Clusters need compute capability 9.0.")
    verdict = judge.evaluate(SUM, ADD.replace("BLOCK=256)", "BLOCK=256, num_ctas=2)"))
    assert verdict.status == "correct", verdict


def test_a_verdict_says_what_was_done(judge):
    verdict = judge.evaluate(SUM, ADD, trials=7)
    assert (verdict.status, verdict.compiled, verdict.correct) == ("correct", True, True)
    assert verdict.trials == 8, "one of other shapes is made besides"
    assert (verdict.error_category, verdict.error_message) == (None, None)
    assert verdict.device == torch.cuda.get_device_name(0)
    assert verdict.speedup == pytest.approx(verdict.reference_ms / verdict.runtime_ms)
    assert verdict.isolation_tier in TIER_STRENGTH
    assert TIER_STRENGTH[verdict.isolation_tier] >= TIER_STRENGTH["landlock"]
    assert verdict.recording == judge.config.recording
    # The sum of two remote rows is about a million, whose last place is 1/16.
    assert verdict.max_abs_error < 1 / 8
    assert verdict.seconds.evaluate > 0


def test_what_is_known_is_not_compiled_again(judge):
    source = ADD + "# another candidate\n"
    assert not judge.evaluate(SUM, source).compile_cached
    assert judge.evaluate(SUM, source).compile_cached


# --- wrong ---


def test_a_wrong_kernel_is_incorrect_and_has_no_time(judge):
    verdict = judge.evaluate(SUM, ADD.replace("x + y,", "x - y,"))
    assert (verdict.status, verdict.compiled) == ("incorrect", True)
    assert "of 600 elements" in verdict.error_message
    assert verdict.mismatched_fraction > 0.9
    assert (verdict.speedup, verdict.runtime_ms, verdict.reference_ms) == (None, None, None)
    assert verdict.timing_tier == "none"


def test_what_does_not_compile_says_where(judge):
    verdict = judge.evaluate(SUM, ADD.replace("x + y,", "tl.no_such_function(x),"))
    assert (verdict.status, verdict.compiled) == ("compile_error", False)
    assert "no_such_function" in verdict.error_message


def test_too_much_shared_memory_is_distinguished(judge):
    body = (
        "n256 = tl.arange(0, 256)\nsquare = n256[:, None] * 256 + n256[None, :]\n"
        "a = tl.load(x_ptr + square % n)\ntl.store(out_ptr + square % n, tl.dot(a, a))"
    )
    verdict = judge.evaluate(SUM, elementwise(body))
    assert (verdict.status, verdict.error_category) == ("compile_error", "shared_memory_exceeded"), verdict


def test_a_store_behind_the_end_is_found(judge):
    behind = elementwise(LOADS + "tl.store(out_ptr + at, x + y)")
    verdict = judge.evaluate(SUM, behind)
    assert verdict.status == "incorrect" or verdict.error_category == "illegal_memory_access", verdict
    assert judge.evaluate(SUM, ADD).status == "correct"


# --- broken ---

ILLEGAL = elementwise(LOADS + "tl.store(out_ptr + at + far, x + y)", "n, 1 << 40", parameters="n, far")
ENDLESS = elementwise(
    LOADS + "rounds = 0\nwhile tl.load(flag_ptr, volatile=True) == 0:\n    rounds += 1\n"
    "tl.store(out_ptr + at, x + y + rounds, mask=at < n)",
    "flag, n",
    before="flag = torch.zeros(1, dtype=torch.int32, device=x.device)",
    parameters="flag_ptr, n",
)
HOG = ADD.replace(
    "out = torch.empty_like(x)\n",
    "out = torch.empty_like(x)\n"
    "        held = [torch.empty(1 << 30, dtype=torch.uint8, device=x.device) for _ in range(1000)]\n",
)


@pytest.mark.parametrize(
    ("broken", "status", "category"),
    [
        pytest.param(ILLEGAL, "runtime_error", "illegal_memory_access", id="illegal address"),
        pytest.param(ENDLESS, "timeout", "timeout", id="endless"),
        pytest.param(HOG, "runtime_error", "out_of_memory", id="hog of memory"),
    ],
)
def test_what_breaks_a_device_breaks_its_own_worker_alone(judge, broken, status, category):
    """Another evaluation runs beside it, and one after it."""
    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(judge.evaluate, SUM, broken, timeout_s=SHORT_S)
        beside = threads.submit(judge.evaluate, SUM, ADD)
        assert (failing.result().status, failing.result().error_category) == (status, category), failing.result()
        assert beside.result().status == "correct", beside.result()
    assert judge.evaluate(SUM, ADD).status == "correct"


def test_memory_of_the_device_is_given_back(judge, gpu):
    """After a hog and after tens of evaluations as much is free as before, except for what is kept ready."""
    judge.evaluate(SUM, ADD)
    free = gpu.free_bytes()
    judge.evaluate(SUM, HOG, timeout_s=SHORT_S)
    for _ in range(3):
        judge.evaluate(SUM, ADD)
    # Meanwhile workers restart, and each has a context of a few hundred megabytes.
    assert gpu.free_bytes() > free - (3 << 30)


# --- times ---

LARGE = problem("x * 2.5 + 1.0", "torch.randn(4096, 4096)")
SCALE = elementwise(
    "x = tl.load(x_ptr + at, mask=at < n)\ntl.store(out_ptr + at, x * 2.5 + 1.0, mask=at < n)",
).replace("256", "1024")
"""Reads and writes 64 MiB, which the reference does twice."""


@pytest.fixture(scope="module")
def timed(judge):
    """Two verdicts on one kernel, another candidate's between them."""
    first = judge.evaluate(LARGE, SCALE)
    judge.evaluate(SUM, ADD)
    return first, judge.evaluate(LARGE, SCALE)


def test_a_time_can_be_repeated(timed):
    one, two = timed
    assert (one.status, two.status) == ("correct", "correct"), timed
    assert one.timing_tier == two.timing_tier == "two_clocks"
    assert not {"clocks_disagree", "impossible_time", "wrong_when_timed"} & {*one.flags, *two.flags}
    assert math.isclose(one.runtime_ms, two.runtime_ms, rel_tol=0.02), timed
    assert math.isclose(one.reference_ms, two.reference_ms, rel_tol=0.02), timed


def test_half_the_memory_traffic_takes_about_half_the_time(timed):
    assert all(1.3 < verdict.speedup < 2.5 for verdict in timed)


def test_a_time_is_the_one_that_triton_measures(timed, judge, tmp_path, monkeypatch):
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("Triton's own launcher needs a C compiler.")
    path = tmp_path / "scale.py"
    path.write_text(SCALE)
    spec = importlib.util.spec_from_file_location("scale_on_a_gpu", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    model, x = module.ModelNew(), torch.randn(4096, 4096, device="cuda")
    theirs = triton.testing.do_bench(lambda: model(x), return_mode="median")
    assert math.isclose(timed[0].runtime_ms, theirs, rel_tol=0.05), (timed[0].runtime_ms, theirs)


@pytest.fixture
def timings(gpu, monkeypatch) -> Iterator[tuple[Judge, list[Timing]]]:
    """A judge in this process, and every timing that it takes from here on."""
    taken: list[Timing] = []
    measure = clocks.measure

    def noted(*arguments):
        taken.append(measure(*arguments))
        return taken[-1]

    monkeypatch.setattr(clocks, "measure", noted)
    running = Judge(EvaluatorConfig(device="cuda", slots=1, ready_workers=1, timeout_s=60))
    running.machine.prepare()
    try:
        yield running, taken
    finally:
        running.close()


def test_gates_hold_the_calls_of_both_sides_and_two_clocks_agree(timings):
    judge, taken = timings
    for asked, candidate in [(LARGE, SCALE), (SUM, ADD)]:
        verdict = judge.evaluate(asked, candidate, trials=2, seed=None, timeout_s=60)
        assert verdict.status == "correct", verdict
        found = taken[-1]
        assert (found.candidate.gated, found.reference.gated) == (True, True)
        assert (found.candidate.calls, found.reference.calls) == (100, 100)
        assert None not in (found.candidate.judge_ms, found.reference.judge_ms)
        if asked is LARGE:
            assert math.isclose(found.candidate.judge_ms, found.candidate.events_ms, rel_tol=0.1), found


def test_a_reference_that_waits_for_the_device_is_timed_without_gate_and_graph(timings):
    judge, taken = timings
    waits = problem("x * 2.5 + (1.0 if x.sum().item() != 0 else 0.0)", "torch.randn(4096, 4096)")
    verdict = judge.evaluate(waits, SCALE, trials=2, seed=None, timeout_s=60)
    assert verdict.status == "correct", verdict
    assert (taken[0].candidate.gated, taken[0].reference.gated) == (True, False)
    assert (taken[0].candidate.judge_ms is None, taken[0].reference.judge_ms) == (False, None)
    assert verdict.timing_tier == "two_clocks"
    # The same worker draws random numbers again, after a capture that failed.
    assert judge.evaluate(waits, SCALE, trials=2, seed=None, timeout_s=60).status == "correct"


KEEPS = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.randn(64, 1024)

    def forward(self, x, start):
        self.kept.copy_(start)
        self.kept = torch.tanh(self.kept + x)
        return self.kept * 2


def get_inputs():
    return [torch.randn(64, 1024), torch.randn(64, 1024)]
"""


def test_a_reference_that_keeps_its_result_for_the_next_call_is_timed(judge):
    kept = Problem.from_source(KEEPS, "keeps")
    body = "z = tl.load(x_ptr + at) + tl.load(y_ptr + at)\ntl.store(out_ptr + at, 4 * tl.sigmoid(2 * z) - 2)"
    for number in range(2):
        verdict = judge.evaluate(kept, elementwise(f"{body}  # {number}"))
        assert verdict.status == "correct", verdict
        assert verdict.speedup > 0


PRODUCT = problem("torch.exp(x @ y)", "0.1 * torch.randn(512, 768), 0.1 * torch.randn(768, 1024)")
BESIDE = elementwise(
    "x = tl.load(x_ptr + at, mask=at < n)\ntl.store(out_ptr + at, {value}, mask=at < n)", before="{before}"
)


def beside(before: str, value: str) -> str:
    """Return a candidate whose kernel makes its output of x, which `before` makes of x and y."""
    made = f"{before}\n        n, out, y = x.numel(), torch.empty_like(x), x"
    return BESIDE.replace("{before}", made).replace("{value}", value)


@pytest.mark.parametrize(
    ("candidate", "policy", "least", "most"),
    [
        (beside("x = x @ y", "tl.exp(x)"), "library", 0.005, 0.9),
        (beside("x = torch.mm(x, y, out=x.new_empty(x.shape[0], y.shape[1]))", "tl.exp(x)"), "library", 0.005, 0.9),
        (beside("x = torch.exp(x @ y)", "x"), "any", 0.005, 0.9),
    ],
)
def test_library_operators_are_repeated_and_the_share_of_the_kernels_is_reported(judge, candidate, policy, least, most):
    verdict = judge.evaluate(PRODUCT, candidate, operators=policy)
    assert verdict.status == "correct", verdict
    assert verdict.operators[-1] in {"aten.matmul", "aten.mm"}
    assert verdict.runtime_ms > 0
    assert least < verdict.kernel_share < most


def test_a_candidate_without_library_operators_has_nearly_all_of_the_time(judge):
    verdict = judge.evaluate(SUM, ADD)
    assert verdict.operators == ()
    assert verdict.kernel_share > 0.9


def test_a_hint_to_the_allocator_about_a_stream_is_no_computation(judge):
    hinting = elementwise(
        LOADS + "tl.store(out_ptr + at, x + y, mask=at < n)", before="x.record_stream(torch.cuda.current_stream())"
    )
    assert judge.evaluate(SUM, hinting).status == "correct"


@pytest.mark.parametrize("known", ["found != found", "found == found", "found == 0.0"])
def test_a_kernel_that_counts_on_fresh_memory_is_wrong(judge, known):
    body = (
        "found = tl.load(out_ptr + at, mask=at < n)\nz = tl.load(x_ptr + at, mask=at < n)\n"
        f"tl.store(out_ptr + at, tl.where({known}, z + tl.load(y_ptr + at, mask=at < n), 0.0), mask=at < n)"
    )
    assert judge.evaluate(SUM, elementwise(body)).status == "incorrect"


def test_many_at_once_are_correct_and_say_how_they_had_the_device(judge):
    sources = [f"{ADD}# {number} of many\n" for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda source: judge.evaluate(SUM, source), sources))
    for verdict in verdicts:
        assert verdict.status == "correct", verdict
        spent = verdict.seconds
        assert min(spent.alone, spent.shared, spent.driver) > 0
        assert spent.alone + spent.shared + spent.driver + spent.lease < spent.evaluate


def test_each_gpu_of_a_machine_has_a_judge_of_its_own(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("the machine has one GPU")
    before = [torch.cuda.mem_get_info(number)[0] for number in (0, 1)]
    with Evaluator(EvaluatorConfig(device="cuda", gpu=1, slots=1, ready_workers=1)) as second:
        free = [torch.cuda.mem_get_info(number)[0] for number in (0, 1)]
        assert before[0] - free[0] < 64 << 20
        assert before[1] - free[1] > 256 << 20
        assert second.evaluate(SUM, ADD).status == "correct"


def test_without_timing_there_are_no_times(gpu):
    with Evaluator(EvaluatorConfig(device="cuda", slots=1, ready_workers=1, timing=False)) as untimed:
        verdict = untimed.evaluate(SUM, ADD)
    assert verdict.status == "correct", verdict
    assert (verdict.speedup, verdict.runtime_ms, verdict.reference_ms) == (None, None, None)
    assert verdict.timing_tier == "none"
