"""Host code only records: detached where it can be, on the device where it must, and on no content of a trial."""

import time
from collections import Counter

import pytest

from warpsmith.evaluator import EvaluatorConfig, Problem, fingerprint
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.judge import replays
from warpsmith.evaluator.judge.host_execution import detached as detaching
from warpsmith.evaluator.judge.host_execution.base import HostExecution, NeedsDeviceError
from warpsmith.evaluator.judge.host_execution.detached import DetachedExecution
from warpsmith.evaluator.judge.host_execution.on_device import OnDeviceExecution
from warpsmith.evaluator.judge.judge import Judge
from warpsmith.evaluator.judge.recordings_by_form import MOST_SMALLER
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.evaluator.workers import gpu_stand_in

HEAD = "import os\nimport torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n"
KERNEL = """\
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)

"""
LAUNCH = "kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)"


def problem(forward="x * 2", inputs="torch.randn(37, 19)", init="", arguments=""):
    constructor = f"    def __init__(self, *given):\n        super().__init__()\n        {init}\n" if init else ""
    return Problem.from_source(
        f"{HEAD}class Model(nn.Module):\n{constructor}    def forward(self, x):\n        return {forward}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{arguments}]\n",
        "recording",
    )


def candidate(before="", after="", *, kernel=KERNEL, init="", launch=LAUNCH, out="torch.empty_like(x)"):
    """Return a candidate that doubles its input, with lines around its launch."""
    lines = "".join(f"        {line}\n" for line in (*before.splitlines(), f"out = {out}", launch, *after.splitlines()))
    constructor = (
        "    def __init__(self, *given):\n        super().__init__()\n"
        + "".join(f"        {line}\n" for line in init.splitlines())
        if init
        else ""
    )
    return (
        f"{HEAD}{kernel}class ModelNew(nn.Module):\n{constructor}    def forward(self, x):\n{lines}        return out\n"
    )


FILLS = KERNEL.replace("def kernel", "def fills").replace("tl.load(x_ptr + at, mask=at < n) * 2.0", "2.0 + 0 * at")
TABLE = KERNEL.replace("x_ptr, out", "x_ptr, table_ptr, out").replace("* 2.0", "* tl.load(table_ptr)")
TABLED = LAUNCH.replace("x, out", "x, self.table, out")
TUNED = KERNEL.replace(
    "@triton.jit",
    '@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])\n@triton.jit',
)
DOUBLE = problem()
EXPECTED = Counter(host=1, candidate=1, compile=1, reference=1 + 8)
"""Workers at rest: one that is ready of each role, and eight sessions that are kept for their problems."""


@pytest.fixture(scope="module")
def running(config):
    judge = Judge(config.model_copy(update={"slots": 1}))
    yield judge
    judge.close()


@pytest.fixture
def judge(running, monkeypatch):
    """A judge whose `why` says about each candidate that could not be recorded detached why that was."""
    running.why = []

    def noting(step):
        def noted(self, *arguments):
            try:
                return step(self, *arguments)
            except NeedsDeviceError as error:
                running.why.append(str(error))
                raise

        return noted

    for step in ("__init__", "load", "record"):
        monkeypatch.setattr(DetachedExecution, step, noting(getattr(DetachedExecution, step)))
    return running


def judged(judge, source, of=DOUBLE, timeout_s=20.0, trials=5):
    verdict = judge.evaluate(of, source, trials=trials, seed=None, timeout_s=timeout_s)
    assert verdict.recording == ("on_device" if judge.why else "detached")
    return verdict


# Detached ---------------------------------------------------------------------------------------------------------


def test_memory_is_used_again_for_other_forms(judge, reusable_memory, monkeypatch):
    """As on a device: forms change with the trial of other shapes and back, and few buffers come into being."""
    judged(judge, candidate())
    memory = reusable_memory()
    monkeypatch.setattr(judge.machine, "device", memory)
    for source, status in ((candidate(), "correct"), (candidate(kernel=KERNEL.replace("* 2.0", "* 2.1")), "incorrect")):
        judge.references.drop_idle()
        memory.created.clear()
        assert (judged(judge, source).status, judge.why) == (status, [])
        assert max(Counter(memory.created).values()) == 1, memory.created


def test_an_honest_kernel_needs_no_host_code_on_the_device(judge, monkeypatch):
    monkeypatch.setattr(OnDeviceExecution, "load", None)
    verdict = judged(judge, candidate())
    assert (verdict.status, verdict.trials, verdict.flags, verdict.compiled) == ("correct", 6, (), True)
    assert judge.why == []


ON_A_DEVICE = """\
assert torch.cuda.is_available() and x.is_cuda and x.device.type == "cuda" and x.device == torch.device("cuda", 0)
properties = torch.cuda.get_device_properties(x.device)
assert properties.multi_processor_count == 132 and torch.cuda.get_device_capability() == (9, 0)
assert torch.empty(3, device=x.device).device == x.device and torch.zeros(2, device="cuda").is_cuda
assert x.cuda() is x and x.to("cuda").shape == x.shape"""


def test_host_code_takes_itself_to_be_on_a_device(judge):
    assert judged(judge, candidate(ON_A_DEVICE)).status == "correct"
    assert judge.why == []


def test_detached_host_code_has_no_content_and_no_gpu(judge):
    """A read or a write of the memory where its input lies ends that process: the call is then recorded elsewhere."""
    nodes = "assert not [name for name in os.listdir('/dev') if name.startswith('nvidia')]"
    assert judged(judge, candidate(nodes)).status == "correct"
    assert judge.why == []
    for before, after, status in (
        ("import ctypes\nctypes.string_at(x.data_ptr(), 4)", "", "correct"),
        ("import ctypes\nassert not any(ctypes.string_at(x.data_ptr(), x.numel() * 4))", "", "runtime_error"),
        ("", "import ctypes\nctypes.memset(out.data_ptr(), 1, min(64, 4 * out.numel()))", "correct"),
    ):
        assert judged(judge, candidate(before, after)).status == status
        assert judge.why and all("segmentation fault" in why for why in judge.why)
        judge.why.clear()


def test_a_list_of_a_tensor_is_rejected(judge):
    assert judged(judge, candidate("x.tolist()")).status == "rejected"


@pytest.mark.parametrize(
    ("source", "status", "says"),
    [
        (candidate(kernel=KERNEL.replace("2.0", "2.1")), "incorrect", "elements"),
        (candidate(kernel=KERNEL.replace("* 2.0, mask=at < n", "* 2.0")), "runtime_error", "mask or an offset"),
        (
            candidate(kernel=KERNEL.replace("x_ptr + at, mask=at < n", "x_ptr + at")),
            "runtime_error",
            "mask or an offset",
        ),
        (candidate(kernel=KERNEL.replace("* 2.0", "+ missing")), "compile_error", "missing"),
        (candidate(launch=LAUNCH.replace("x.numel(), B", "703, B")), "incorrect", "inputs of other shapes"),
        (candidate("x = torch.zeros_like(x)"), "incorrect", "elements"),
    ],
    ids=["wrong", "no mask", "no mask of a load", "does not compile", "one shape", "of zeros"],
)
def test_what_a_kernel_does_wrong_is_reported_as_ever(judge, source, status, says):
    verdict = judged(judge, source)
    assert (verdict.status, says in verdict.error_message) == (status, True), verdict
    assert judge.why == []


def test_a_kernel_beside_copies_that_do_all_is_a_decoy(judge):
    copies = candidate(
        after="out.copy_(x)",
        kernel=KERNEL.replace("* 2.0, mask=at < n", "* 0.0, mask=at < 0"),
        out="torch.empty_like(x)",
    )
    verdict = judged(judge, copies, of=problem("x.clone()"))
    assert (verdict.status, verdict.flags) == ("rejected", ("decoy_kernel",)), verdict
    assert judge.why == []


THROWN_AWAY = candidate(
    launch="kernel[(1,)](x, out, 16, BLOCK=16)", after="return x.t().contiguous()", out="torch.empty_like(x)"
)


@pytest.mark.parametrize(
    ("rows", "seeds"), [("33 if float(torch.rand(1)) < 0.5 else 34", 4), ("int(torch.randint(20, 2000, (1,)))", 2)]
)
def test_a_decoy_is_found_whatever_form_the_inputs_have(judge, rows, seeds):
    turned = problem("x.t().contiguous()", f"torch.randn({rows}, 40)")
    for seed in range(seeds):
        judge.config, kept = judge.config.model_copy(update={"allow_unreplayed": True}), judge.config
        try:
            verdict = judge.evaluate(turned, THROWN_AWAY, trials=5, seed=seed, timeout_s=20)
        finally:
            judge.config = kept
        assert (verdict.status, verdict.flags) == ("rejected", ("decoy_kernel",)), verdict


def test_host_code_runs_a_few_times_on_the_form_of_the_sample_and_once_on_others(judge, monkeypatch):
    """And once more on each of a few forms, in another process and order."""
    called = []
    original = DetachedExecution._call
    monkeypatch.setattr(
        DetachedExecution, "_call", lambda self, room: called.append(repr(self.session.inputs)) or original(self, room)
    )
    assert judged(judge, candidate("# many"), trials=12).status == "correct"
    assert called.count(called[0]) == DetachedExecution.calls + 1
    assert called[-1] == called[0]
    others = Counter(form for form in called if form != called[0])
    assert {*others.values()} <= {1, 2}
    assert list(others.values()).count(2) == min(len(others), MOST_SMALLER)


KEPT = """\
if getattr(self, "kept", None) is None:
    self.kept = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, self.kept, x.numel(), BLOCK=64)"""


def test_an_answer_that_is_kept_from_call_to_call_is_wrong(judge):
    verdict = judged(judge, candidate(KEPT, launch="out = self.kept"))
    assert verdict.status == "incorrect"


def test_an_answer_that_is_known_again_by_a_few_numbers_is_wrong(judge):
    known = "key = x.flatten()[0].item()\nself.key = getattr(self, 'key', None)\nif key != self.key: self.kept = None\n"
    verdict = judged(judge, candidate(f"{known}self.key = key\n{KEPT}", launch="out = self.kept"))
    assert verdict.status in {"incorrect", "rejected"}


def test_a_table_that_the_first_call_computes_may_be_kept(judge):
    """A kernel fills it with twos, and later calls read it."""
    lazily = """\
if getattr(self, "table", None) is None:
    self.table = torch.empty(16, device=x.device)
    fills[(1,)](x, self.table, 16, BLOCK=16)"""
    source = candidate(lazily, kernel=FILLS + TABLE, launch=TABLED)
    assert judged(judge, source).status == "correct"
    assert judge.why == []


def test_a_workspace_may_be_kept_and_is_no_larger_than_it_was_made(judge):
    kept = """\
if getattr(self, "kept", None) is None or self.kept.numel() < x.numel():
    self.kept = torch.empty(x.shape[0] * x.shape[1], device=x.device)"""
    launch = "kernel[(triton.cdiv(x.numel(), 64),)](x, self.kept, x.numel(), BLOCK=64)"
    copied = "out.copy_(self.kept[: x.numel()].view_as(x))"
    assert judged(judge, candidate(kept, copied, launch=launch)).status == "correct"
    small = candidate(kept.replace("x.shape[0] * x.shape[1]", "100"), launch=launch)
    assert judged(judge, small).status != "correct"


MADE = "self.kept = torch.empty(37, 19, device='cuda')"
LAZILY = "if getattr(self, 'kept', None) is None: self.kept = torch.empty(64 * 64, device=x.device)"
OVERWRITTEN = {
    "made by the first call": candidate(LAZILY, out="self.kept[: x.numel()].view_as(x)"),
    "made by the constructor": candidate(init=MADE, out="self.kept[: x.shape[0], : x.shape[1]]"),
    "a buffer of its own": candidate(
        init="self.register_buffer('kept', torch.empty(64 * 64))", out="self.kept[: x.numel()].view_as(x)"
    ),
    "of the module": candidate(out="KEPT[: x.numel()].view_as(x)", kernel=f"KEPT = torch.empty(64 * 64)\n\n\n{KERNEL}"),
    "by turns": candidate(
        "self.calls = getattr(self, 'calls', -1) + 1\n"
        "self.ring = [*getattr(self, 'ring', ()), torch.empty_like(x)][:2]",
        out="self.ring[self.calls % 2]",
    ),
    "moved there": candidate(LAZILY, "kept = self.kept[: x.numel()].view_as(x)\nkept.copy_(out)\nreturn kept"),
    "stacked there": candidate(
        LAZILY, "kept = torch.as_strided(self.kept, x.shape, x.stride())\nreturn torch.stack([out], out=kept[None])[0]"
    ),
    "scratch memory later": candidate(
        after="old, self.kept = getattr(self, 'kept', None), out\n"
        "if old is not None and old.shape == x.shape: kernel[(1,)](x, old, 16, BLOCK=16)",
    ),
    "on the device": candidate(f"factor = x.flatten()[0].item()\n{LAZILY}", out="self.kept[: x.numel()].view_as(x)"),
}


@pytest.mark.parametrize("source", OVERWRITTEN.values(), ids=OVERWRITTEN)
def test_an_output_that_the_next_call_overwrites_is_refused(judge, source):
    verdict = judged(judge, source)
    assert (verdict.status, "allocate the output in each call" in verdict.error_message) == ("rejected", True), verdict


def test_an_output_that_is_refused_is_one_of_several(judge):
    pair = problem("(x * 2, x * 2)")
    source = candidate(LAZILY, after="kept = self.kept[: x.numel()].view_as(x)\nkept.copy_(out)")
    verdict = judged(judge, source.replace("return out", "return out, kept"), of=pair)
    assert (verdict.status, "allocate the output in each call" in verdict.error_message) == ("rejected", True), verdict


TABLES = problem("(x * 2, torch.full((16,), 2.0))")


@pytest.mark.parametrize(
    ("source", "of"),
    [
        (candidate(init="self.table = torch.full((16,), 2.0)", after="return out, self.table"), TABLES),
        (
            candidate(
                "if getattr(self, 'table', None) is None:\n"
                "    self.table = torch.empty(16, device=x.device)\n"
                "    fills[(1,)](x, self.table, 16, BLOCK=16)",
                "return out, self.table[:16]",
                kernel=FILLS + KERNEL,
            ),
            TABLES,
        ),
        (
            candidate("shared = x.view(-1)", "return out, shared[:16]"),
            problem("(x * 2, x.view(-1)[:16])"),
        ),
        (
            candidate(init="self.scale = nn.Parameter(torch.ones(16))", after="return out, self.scale.view(4, 4)"),
            problem("(x * 2, self.scale.view(4, 4))", init="self.scale = nn.Parameter(torch.ones(16))"),
        ),
        (
            candidate(
                init="self.register_buffer('state', torch.ones(16))",
                after="kernel[(1,)](x, self.state, 16, BLOCK=16)\nreturn out, self.state",
            ),
            problem(
                "(x * 2, self.state.copy_(x.view(-1)[:16] * 2))", init="self.register_buffer('state', torch.ones(16))"
            ),
        ),
    ],
    ids=["a table", "a table of a kernel", "a view of an input", "a parameter", "a buffer of the problem"],
)
def test_an_output_that_no_later_call_writes_may_be_kept(judge, source, of):
    source = source.replace("        return out\n", "")
    verdict = judged(judge, source, of=of)
    assert verdict.status == "correct", verdict


ALIKE = TUNED.replace('triton.Config({"BLOCK": 128})', 'triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 64})')
GRID = 'lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)'
TUNED_LAUNCH = f"kernel[{GRID}](x, out, x.numel())"


@pytest.mark.parametrize(
    "source",
    [
        candidate(kernel=ALIKE, launch=TUNED_LAUNCH),
        candidate(
            kernel=ALIKE + KERNEL.replace("def kernel", "def plain"),
            init="self.calls = 0",
            launch=f"{TUNED_LAUNCH} if self.calls == 0 else plain[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)",  # noqa: E501
            after="self.calls += 1",
        ),
    ],
    ids=["alike", "in the first call"],
)
def test_fewer_patterns_than_configurations_end_too(judge, source):
    assert judged(judge, source).status == "correct"


def test_a_constant_without_content_is_no_recording(judge):
    forged = "import gc\nfor held in gc.get_objects():\n    if type(held).__name__ == 'Recorder': held.events.append(['const', 5])"  # noqa: E501
    verdict = judge.evaluate(DOUBLE, candidate(after=forged), trials=5, seed=None, timeout_s=20.0)
    assert verdict.status not in {"correct", "invalid"}


WEIGHTED = problem("x * self.scale", init="self.scale = nn.Parameter(torch.randn(19))")


@pytest.mark.parametrize(
    "derived",
    ["self.scale.detach().clone()", "torch.randn(19)", "torch.full((19,), float(self.scale[0]))"],
    ids=["of a parameter", "random", "of a number"],
)
def test_a_constant_that_depends_on_what_changes_is_refused(judge, derived):
    source = candidate(
        kernel=TABLE,
        init=f"self.scale = nn.Parameter(torch.randn(19))\nself.table = {derived}",
        launch=TABLED,
    )
    verdict = judged(judge, source, of=WEIGHTED)
    assert verdict.status == "rejected"
    assert "the constructor derives from parameters" in verdict.error_message


def test_a_number_that_depends_on_a_parameter_is_wrong(judge):
    source = candidate(
        kernel=KERNEL.replace("n, BLOCK", "n, factor, BLOCK").replace("* 2.0", "* factor"),
        init="self.scale = nn.Parameter(torch.ones(1))\nself.factor = float(self.scale)",
        launch=LAUNCH.replace("x.numel(), B", "x.numel(), self.factor, B"),
    )
    verdict = judged(judge, source, of=problem("x * self.scale", init="self.scale = nn.Parameter(torch.ones(1))"))
    assert verdict.status == "incorrect"


def test_every_configuration_of_an_autotuned_kernel_is_recorded(judge):
    """A configuration that covers half of the elements is found, no matter which is drawn first."""
    broken = TUNED.replace("at = tl.program_id(0) * BLOCK", "at = tl.program_id(0) * 64")
    broken = broken.replace("tl.arange(0, BLOCK)", "tl.arange(0, 64)").replace("mask=at < n)\n", "mask=at < n)\n")
    half = LAUNCH.replace("(triton.cdiv(x.numel(), 64),)", 'lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)')
    half = half.replace(", BLOCK=64", "")
    for _ in range(3):
        verdict = judged(judge, candidate(kernel=broken, launch=half))
        assert verdict.status == "incorrect"
        assert "triton.autotune took" in verdict.error_message
    assert judged(judge, candidate(kernel=TUNED, launch=half)).status == "correct"


TUNED_LAUNCH = LAUNCH.replace("(triton.cdiv(x.numel(), 64),)", 'lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)')
TUNED_LAUNCH = TUNED_LAUNCH.replace(", BLOCK=64", "")


def tuned_over(blocks, first_line):
    configs = ", ".join(f'triton.Config({{"BLOCK": {block}}})' for block in blocks)
    tuned = KERNEL.replace("@triton.jit", f'@triton.autotune([{configs}], key=["n"])\n@triton.jit')
    return tuned.replace("    at = ", f"    {first_line}\n    at = ", 1)


@pytest.mark.parametrize("blocks", [(64, 512), (512, 1024, 2048, 64, 4096, 8192)])
def test_a_configuration_that_the_autotuner_skips_is_left_out(judge, blocks):
    # Of each form that a trial has, all but one are left out.
    kernel = tuned_over(blocks, 'tl.static_assert(BLOCK < 100, "a small block")')
    for _ in range(3):
        verdict = judged(judge, candidate(kernel=kernel, launch=TUNED_LAUNCH), trials=16)
        assert (verdict.status, verdict.compiled) == ("correct", True), verdict.error_message


def test_a_configuration_that_is_left_out_hides_no_other_mistake(judge):
    kernel = tuned_over((64, 512), "tl.static_assert(BLOCK < 100)").replace("* 2.0", "* 2.001")
    assert judged(judge, candidate(kernel=kernel, launch=TUNED_LAUNCH)).status == "incorrect"


def test_if_the_autotuner_would_skip_every_configuration_the_assertion_is_named(judge):
    kernel = tuned_over((256, 512), 'tl.static_assert(BLOCK < 100, "a small block")')
    verdict = judged(judge, candidate(kernel=kernel, launch=TUNED_LAUNCH))
    assert verdict.status != "correct"
    assert verdict.error_category == "assertion_error"
    assert "a small block" in verdict.error_message


def test_other_errors_of_a_configuration_are_not_skipped(judge):
    """As in Triton: only too much memory, a static assertion and the assembler's errors are."""
    kernel = tuned_over((64, 512), "tl.arange(0, 48 if BLOCK > 100 else 64)")
    assert judged(judge, candidate(kernel=kernel, launch=TUNED_LAUNCH)).status in {"compile_error", "runtime_error"}


def test_what_is_not_skipped_fails_beside_what_is(judge):
    lines = "tl.static_assert(BLOCK != 512)\n    if BLOCK == 1024:\n        at = tl.arange(0, 48)"
    kernel = tuned_over((64, 512, 1024), lines)
    for _ in range(2):
        assert judged(judge, candidate(kernel=kernel, launch=TUNED_LAUNCH)).status in {"compile_error", "runtime_error"}


def test_configurations_that_differ_in_each_call_are_not_tried_for_ever(judge):
    kernel = tuned_over((64, 128), "tl.static_assert(turn < 0)").replace("n, BLOCK", "n, turn: tl.constexpr, BLOCK")
    source = candidate(
        before="self.turn += 1",
        kernel=kernel,
        init="self.turn = 0",
        launch=TUNED_LAUNCH.replace("x.numel())", "x.numel(), turn=self.turn)"),
    )
    verdict = judged(judge, source)
    assert verdict.status not in {"correct", "invalid", "timeout"}


def test_weights_are_those_of_the_problem(judge):
    weighted = problem("x * self.scale", init="self.scale = nn.Parameter(torch.randn(19))")
    kernel = KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + at % 19)")
    source = candidate(
        kernel=kernel,
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=LAUNCH.replace("x, out", "x, self.scale, out"),
    )
    assert judged(judge, source, of=weighted).status == "correct"
    assert judge.why == []


def test_buffers_are_those_of_the_problem_and_change_with_each_call(judge):
    counted = problem(
        "(self.steps.add_(1), x * 2 + self.steps)[1]", init='self.register_buffer("steps", torch.zeros(1))'
    )
    kernel = (
        KERNEL.replace("x_ptr, out", "x_ptr, steps_ptr, out")
        .replace(
            "* 2.0, mask=at < n)",
            "* 2.0 + tl.load(steps_ptr) + 1, mask=at < n)\n    tl.debug_barrier()\n"
            "    tl.store(steps_ptr, tl.load(steps_ptr) + 1)",
        )
        .replace("tl.program_id(0) * BLOCK", "0")
    )
    source = candidate(
        kernel=kernel,
        init='self.register_buffer("steps", torch.zeros(1))',
        launch="kernel[(1,)](x, self.steps, out, x.numel(), BLOCK=1024)",
    )
    assert judged(judge, source, of=counted).status == "correct"
    wrong = judged(judge, source.replace("tl.load(steps_ptr) + 1)\n\n", "tl.load(steps_ptr) + 2)\n\n"), of=counted)
    assert "Buffer steps after forward" in wrong.error_message
    assert "Model's forward updates" not in wrong.error_message
    assert judge.why == []


@pytest.mark.parametrize(
    ("buffer", "usually"), [("steps", ""), ("running_mean", ", as normalisations do in training mode")]
)
def test_a_buffer_that_only_the_reference_updates_is_reported_as_such(judge, buffer, usually):
    init = f'self.register_buffer("{buffer}", torch.zeros(1))'
    counted = problem(f"(self.{buffer}.add_(1), x * 2)[1]", init=init)
    verdict = judged(judge, candidate(init=init), of=counted)
    assert verdict.status == "incorrect"
    said = f"Model's forward updates this buffer{usually}: update it in a kernel as well"
    assert f"Buffer {buffer} after forward: " in verdict.error_message
    assert f"expected 1, got 0. {said}" in verdict.error_message


def test_a_parameter_without_dimensions_is_copied_as_on_a_device(judge):
    """There torch copies what it fills with on a CPU; its content is not known when the trace is written."""
    scaled = problem("x * self.scale", init="self.scale = nn.Parameter(torch.tensor(2.0))")
    kernel = KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + 3)")
    source = candidate(
        "scales = torch.empty(8, device=x.device)\nscales[:] = self.scale",
        kernel=kernel,
        init="self.scale = nn.Parameter(torch.tensor(1.0))",
        launch=LAUNCH.replace("x, out", "x, scales, out"),
    )
    assert judged(judge, source, of=scaled).status == "correct"
    assert judge.why == []


@pytest.mark.parametrize("trials", [1, 5, pytest.param(150, marks=pytest.mark.slow)])
def test_all_trials_are_replays_in_one_worker(judge, trials):
    verdict = judged(judge, candidate(f"# {trials}"), trials=trials, timeout_s=120.0)
    assert (verdict.status, verdict.trials) == ("correct", trials + (trials >= 5)), verdict
    assert judge.why == []


def test_the_line_of_forward_that_computes_with_torch_is_reported(judge):
    source = candidate("x = x.exp()\nx = (\n    x.log()\n)\nx = x.log()", init="self.by = torch.ones(3)\nself.by *= 2")
    line = source.splitlines().index("        x = x.exp()") + 1
    verdict = judged(judge, source)
    assert verdict.status == "rejected"
    operators = f"aten::exp (line {line}: x = x.exp()), aten::log (line {line + 2}: x.log())."
    assert f"forward computes with torch instead of Triton: {operators}" in verdict.error_message
    assert judge.why == []


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ("tl.load(x_ptr + at)", "loads 1 elements outside every tensor that it was given; the first lies right behind"),
        ("tl.load(x_ptr + at + 705, mask=at < 1)", "the first lies 8 bytes behind"),
    ],
)
def test_a_load_outside_of_a_tensor_is_reported_with_where_it_lies(judge, wrong, where):
    source = candidate(kernel=KERNEL.replace("tl.load(x_ptr + at, mask=at < n)", wrong))
    verdict = judged(judge, source)
    assert f"{where} the end of x_ptr. A mask" in verdict.error_message


COLUMN = problem("x * self.scale[:, 1]", init="self.scale = nn.Parameter(torch.randn(19, 3))")


def keeps_a_turned_scale(until, *, init="", more=""):
    """Return a candidate that turns its parameter, and keeps that until the condition says that it has changed."""
    turn = "self.turned = self.scale.detach().t().contiguous()"
    return candidate(
        f"if {until}:\n    {turn}\n    self.version = self.scale._version\nturned = self.turned\n{more}",
        kernel=KERNEL.replace("x_ptr, out", "x_ptr, turned_ptr, out").replace(
            "* 2.0", "* tl.load(turned_ptr + 19 + at % 19)"
        ),
        init=f"self.scale = nn.Parameter(torch.ones(19, 3))\nself.version = self.turned = None\n{init}",
        launch=LAUNCH.replace("x, out", "x, turned, out"),
    )


BY_VERSION = "self.version != self.scale._version"


@pytest.mark.parametrize(
    ("way", "more"), [(DetachedExecution, ""), (OnDeviceExecution, "self.scale.flatten()[0].item()")]
)
def test_a_parameter_has_a_new_version_in_each_call(judge, monkeypatch, way, more):
    """As after a copy into it, so that what is kept until torch shows a change is remade."""
    made = []
    record = way.record

    def kept(self, answer, room):
        found = record(self, answer, room)
        made.extend(found)
        return found

    monkeypatch.setattr(way, "record", kept)
    assert judged(judge, keeps_a_turned_scale(BY_VERSION, more=more), of=COLUMN).status == "correct"
    assert bool(judge.why) is (way is OnDeviceExecution)
    assert made
    for recording in made:
        assert any(event[0] == "copy" for event in recording.events), recording
        assert not recording.past


def test_a_buffer_that_has_no_version_is_left_alone(judge):
    """A tensor that was made in inference mode says of no change."""
    init = "with torch.inference_mode():\n    made = torch.ones(3)\nself.register_buffer('made', made)"
    assert judged(judge, keeps_a_turned_scale(BY_VERSION, init=init), of=COLUMN).status == "correct"
    assert judge.why == []


def test_what_is_kept_without_a_sign_of_a_change_is_wrong(judge):
    verdict = judged(judge, keeps_a_turned_scale("self.turned is None"), of=COLUMN)
    assert verdict.status == "incorrect"
    assert "in the constructor or in an earlier call" in verdict.error_message


def test_what_any_trial_launches_is_compiled(judge):
    """Also where the first one launches something else."""
    one_or_two = Problem.from_source(
        f"{HEAD}class Model(nn.Module):\n    def forward(self, x, n):\n        return x * 2\n\n"
        "def get_inputs():\n    return [torch.randn(37, 19), int(torch.randint(1, 3, (1,)))]\n",
        "one or two",
    )
    kernels = KERNEL + KERNEL.replace("def kernel", "def other")
    launches = f"launched = kernel if n == 1 else other\nwarps = 4 if n == 1 else 64\n{LAUNCH}"
    launches = launches.replace("\nkernel[", "\nlaunched[").replace("BLOCK=64)", "BLOCK=64, num_warps=warps)")
    source = candidate(kernel=kernels, launch="pass", after=launches)
    source = source.replace("forward(self, x)", "forward(self, x, n)")
    for seed in range(3):
        verdict = judge.evaluate(one_or_two, source, trials=8, seed=seed, timeout_s=20)
        assert verdict.status == "compile_error", verdict


# On the device ----------------------------------------------------------------------------------------------------

SCALED = candidate(
    "factor = float(x.flatten()[0].item())",
    kernel=KERNEL.replace("n, BLOCK", "n, factor, BLOCK").replace("* 2.0", "* factor"),
    launch=LAUNCH.replace("x.numel(), B", "x.numel(), factor, B"),
)


@pytest.mark.parametrize(
    ("source", "why", "status"),
    [
        (candidate("factor = float(x.flatten()[0].item())"), "reads a tensor's content", "correct"),
        (candidate("if x.flatten()[0] > 100: x = x.clone()"), "reads a tensor's content", "rejected"),
        (candidate("raise ValueError('no')"), "ValueError", "runtime_error"),
        (candidate("os._exit(3)"), "exit code 3", "runtime_error"),
        (candidate("x = x.to(torch.bfloat16).to(torch.float32)"), "bfloat16 is not supported", "runtime_error"),
    ],
    ids=["item", "branch", "raises", "exits", "bfloat16"],
)
def test_what_cannot_be_recorded_detached_is_recorded_on_the_device(judge, source, why, status):
    verdict = judged(judge, source)
    assert verdict.status == status, verdict
    assert len(judge.why) == 1
    assert why in judge.why[0]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (candidate("torch.relu(x)"), "rejected"),
        (candidate(launch="out.copy_(x)"), "rejected"),
        (candidate(after="return out.t()"), "incorrect"),
        (candidate(out="torch.empty(x.shape)"), "correct"),
        (candidate(out='torch.empty(x.shape, device=torch.device("cpu"))'), "correct"),
        (candidate(kernel=TABLE, init="self.table = nn.Parameter(torch.full((4,), 2.0))", launch=TABLED), "correct"),
        (candidate(init="self.k = torch.randperm(3).tolist()"), "correct"),
        (
            candidate(init="self.calls = 0", before="self.calls += 1\nif self.calls > 3: x = x.clone().zero_()"),
            "incorrect",
        ),
        (candidate(after="for i in range(300): kernel[(1,)](x, out, 2 + i, BLOCK=64)"), "runtime_error"),
    ],
    ids=["torch", "no kernel", "form", "host", "named host", "parameter", "permutation", "calls", "many"],
)
def test_what_needs_no_content_is_decided_detached(judge, source, status):
    assert judged(judge, source).status == status
    assert judge.why == []


@pytest.mark.parametrize(
    "source",
    [
        candidate(launch=f"found = {LAUNCH}", after="found.n_regs"),
        candidate("known = kernel.warmup(x, x, 1, BLOCK=64, grid=(1,))\nknown._init_handles()\nknown.metadata.shared"),
        candidate("import torch.nn.functional as F\nF.pad(x, (1, 1))"),
    ],
    ids=["registers", "warmup", "pad"],
)
def test_facts_of_a_kernel_are_plausible_where_there_is_no_gpu(judge, source):
    assert judged(judge, source).status == "correct"
    assert judge.why == []


def test_an_error_on_the_device_does_not_hide_the_one_before_it(judge):
    otherwise = "if type(kernel).__name__ != 'JITFunction': raise KeyError('no such attribute')"
    verdict = judged(judge, candidate("raise ValueError('powers of two')", init=otherwise))
    assert (verdict.status, verdict.error_category) == ("runtime_error", "key_error")
    assert "KeyError: 'no such attribute'" in verdict.error_message
    assert "(before that, without a device: ValueError: powers of two" in verdict.error_message


def test_the_same_error_in_both_ways_is_told_once(judge):
    verdict = judged(judge, candidate("raise ValueError('powers of two')"))
    assert verdict.error_message.count("powers of two") - verdict.error_message.count("raise ValueError") == 1
    assert "without a device" not in verdict.error_message


def test_launches_that_depend_on_a_content_are_rejected_and_say_so(judge):
    first = problem("x * x.flatten()[0]")
    verdict = judged(judge, SCALED, of=first)
    assert (verdict.status, verdict.flags) == ("rejected", ("not_from_kernels",))
    assert "depends on the values of its inputs" in verdict.error_message


def _bytes(session):
    return bytes(tensor_views.content(session.inputs_buffer).numpy())


def test_host_code_sees_the_content_of_a_trial_only_when_that_is_over(judge, monkeypatch):
    """Neither inputs nor parameters that it has seen are those of a later replay."""
    weighted = problem("x * self.scale", init="self.scale = nn.Parameter(torch.randn(19))")
    seen, recorded, late = set(), [], []
    fill, copy = OnDeviceExecution._fill_inputs, replays.copy_inputs
    monkeypatch.setattr(
        OnDeviceExecution,
        "_fill_inputs",
        lambda self, arena: (seen.add(_bytes(self.session)), recorded.append(self)) and fill(self, arena),
    )
    monkeypatch.setattr(
        replays, "copy_inputs", lambda session, arena: late.append(_bytes(session) in seen) or copy(session, arena)
    )
    kernel = KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + at % 19)")
    source = candidate(
        "x.flatten()[0].item()",
        kernel=kernel,
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=LAUNCH.replace("x, out", "x, self.scale, out"),
    )
    assert judged(judge, source, of=weighted).status == "correct"
    assert len(recorded) >= OnDeviceExecution.calls + 5
    assert late
    assert not any(late)


WITH_A_NUMBER = {
    "kernel": KERNEL.replace("n, BLOCK", "n, unused, BLOCK"),
    "launch": LAUNCH.replace("x.numel(), B", "x.numel(), unused, B"),
}
CONTENTS = {
    "an argument": candidate("unused = int(abs(x.flatten()[0].item()) * 1e6) % 64", **WITH_A_NUMBER),
    "an argument, and a count": candidate(
        "self.calls = getattr(self, 'calls', 0) + 1\n"
        "unused = int(abs(x.flatten()[0].item()) * 1e6) % 64 * 4 + self.calls % 2",
        **WITH_A_NUMBER,
    ),
    "a copy": candidate("if int(abs(x.flatten()[0].item()) * 1e6) % 2: x = x.clone()"),
    "a grid": candidate(
        "more = int(abs(x.flatten()[0].item()) * 1e6) % 64", launch=LAUNCH.replace("64),", "64) + more,")
    ),
    "the last call": candidate(
        "unused, self.last = self.last, int(abs(x.flatten()[0].item()) * 1e6) % 64",
        init="self.last = 0",
        **WITH_A_NUMBER,
    ),
    "an exception": candidate(
        "first = x.flatten()[0].item()\nself.sign = getattr(self, 'sign', first > 0)\nassert self.sign == (first > 0)"
    ),
}


@pytest.mark.parametrize("source", CONTENTS.values(), ids=CONTENTS)
def test_what_host_code_does_is_the_same_on_every_content(judge, source):
    """Though each of these replays is right on every content."""
    verdict = judged(judge, source, trials=12)
    # Where two recordings on plain contents differ already, a replay is wrong before host code is called again.
    assert verdict.status in {"rejected", "incorrect"}, verdict
    if verdict.status == "rejected":
        assert verdict.flags == ("not_from_kernels",)
        assert "forward acts differently than on others" in verdict.error_message


def test_a_content_that_is_missing_where_there_is_no_device_is_not_hidden(judge):
    caught = "try:\n    unused = int(abs(x.flatten()[0].item()) * 1e6) % 64\nexcept Exception:\n    unused = 0"
    verdict = judged(judge, candidate(caught, **WITH_A_NUMBER), trials=12)
    assert (verdict.status, verdict.flags) == ("rejected", ("not_from_kernels",)), verdict
    assert len(judge.why) == 1


def test_what_host_code_does_is_the_same_for_every_parameter(judge):
    source = candidate(
        "unused = int(abs(self.scale[0].item()) * 1e6) % 64",
        kernel=WITH_A_NUMBER["kernel"]
        .replace("x_ptr, out", "x_ptr, scale_ptr, out")
        .replace("* 2.0", "* tl.load(scale_ptr + at % 19)"),
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=WITH_A_NUMBER["launch"].replace("x, out", "x, self.scale, out"),
    )
    verdict = judged(judge, source, of=WEIGHTED)
    assert (verdict.status, verdict.flags) == ("rejected", ("not_from_kernels",)), verdict


SCRATCH = "kernel[(triton.cdiv(x.numel(), 64),)](x, scratch, x.numel(), BLOCK=64)"
SAME_CONTENT = {
    "a workspace that grows": "if self.kept is None or self.kept.numel() < x.numel(): self.kept = torch.empty_like(x)\n"
    f"scratch = self.kept\n{SCRATCH}",
    "two workspaces in turn": "self.calls += 1\nself.ring = [*self.ring, torch.empty(64 * 64, device=x.device)][:2]\n"
    f"scratch = self.ring[self.calls % len(self.ring)]\n{SCRATCH}",
    "a workspace for each shape": "if x.shape not in self.by_shape: self.by_shape[x.shape] = torch.empty_like(x)\n"
    f"scratch = self.by_shape[x.shape]\n{SCRATCH}",
    "a warm-up": f"if self.calls == 0:\n    scratch = torch.empty_like(x)\n    {SCRATCH}\nself.calls += 1",
}


@pytest.mark.parametrize("before", SAME_CONTENT.values(), ids=SAME_CONTENT)
def test_what_host_code_keeps_is_no_content(judge, before):
    init = "self.kept, self.calls, self.ring, self.by_shape = None, 0, [], {}"
    source = candidate(f"x.flatten()[0].item()\n{before}", init=init)
    for trials in (3, 9):
        verdict = judged(judge, source, trials=trials)
        assert verdict.status == "correct", verdict


def test_an_autotuned_kernel_takes_one_configuration_on_all_contents(judge):
    source = candidate("x.flatten()[0].item()", kernel=TUNED, launch=TUNED_LAUNCH)
    verdict = judged(judge, source, trials=9)
    assert verdict.status == "correct", verdict


def test_tensors_for_the_constructor_are_there_where_host_code_is_detached(judge):
    given = problem("x * self.table[0]", init="self.table = given[0]", arguments="torch.full((3,), 2.0)")
    source = candidate(kernel=TABLE, init="self.table = given[0]", launch=TABLED)
    assert judged(judge, source, of=given).status == "correct"
    assert judge.why == []


def test_a_large_module_is_constructed_on_the_device(judge, monkeypatch):
    monkeypatch.setattr(detaching, "DETACHED_STATE_BYTES", 32)
    source = candidate(
        kernel=KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + at % 19)"),
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=LAUNCH.replace("x, out", "x, self.scale, out"),
    )
    assert judged(judge, source, of=WEIGHTED).status == "correct"
    assert judge.why == ["the module is large"]


def test_inputs_of_many_forms_are_recorded_one_by_one(judge):
    varying = problem(inputs="torch.randn(30 + int(torch.randint(8, ())), 19)")
    assert judged(judge, candidate(), of=varying).status == "correct"


def test_host_code_without_end_gets_little_of_the_time(judge, monkeypatch):
    monkeypatch.setattr(detaching, "DETACHED_S", 0.5)
    verdict = judged(judge, candidate("while True: pass"), timeout_s=3.0)
    assert verdict.status == "timeout"
    assert "did not finish" in judge.why[0]


FORGED = """\
from warpsmith.evaluator import _native
from warpsmith.evaluator.ipc import messages as protocol
for number in range(3, 64):
    try:
        protocol.send(_native.Channel(number), protocol.Kind.{kind}, {fields})
    except Exception:
        pass
"""


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("LAUNCH", '{"kernel": "kernel", "arguments": {}, "options": {}}'),
        ("DONE", "{}"),
        ("DONE", '{"trace": {"events": [["launch", "kernel", [1], {}, {}]], "outputs": []}}'),
        ("READY", "{}"),
        ("DEVICE_WANTED", "{}"),
        ("DEVICE_RETURNED", "{}"),
    ],
)
def test_forged_messages_of_host_code_buy_nothing(judge, kind, fields):
    wrong = candidate(FORGED.format(kind=kind, fields=fields), kernel=KERNEL.replace("* 2.0", "* 2.5"))
    verdict = judge.evaluate(DOUBLE, wrong, trials=5, seed=None, timeout_s=20.0)
    assert verdict.status != "correct"


def test_no_worker_is_lost_either_way(judge):
    for source in (candidate(), candidate("x.flatten()[0].item()"), candidate("os._exit(1)")):
        judged(judge, source)
    deadline = time.monotonic() + 20
    while (left := Counter(worker.role for worker in judge.machine.workers() if worker.alive)) > EXPECTED:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


# Another order of calls ------------------------------------------------------------------------------------------

COPIES = KERNEL.replace("def kernel", "def copies").replace(" * 2.0", "")
FROM_SCRATCH = LAUNCH.replace("kernel[", "copies[").replace("(x,", "(scratch,")
OF_GRID = LAUNCH.replace("(triton.cdiv(x.numel(), 64),)", "grid")
KEPT_TOO_LONG = {
    "a workspace": (
        f"if self.kept is None: self.kept = torch.empty(x.numel(), device=x.device)\nscratch = self.kept\n{SCRATCH}",
        FROM_SCRATCH,
    ),
    "a grid": (
        "if self.kept is None: self.kept = (triton.cdiv(x.numel(), 64),)\ngrid = self.kept",
        OF_GRID,
    ),
    "a grid of the module": ("grid = KEPT.setdefault(x.dim(), (triton.cdiv(x.numel(), 64),))", OF_GRID),
    "an assertion": ("if self.kept is None: self.kept = x.numel()\nassert x.numel() <= self.kept", LAUNCH),
}


@pytest.mark.parametrize("reads", ["", "x.flatten()[0].item()\n"], ids=["detached", "on the device"])
@pytest.mark.parametrize(("before", "launch"), KEPT_TOO_LONG.values(), ids=KEPT_TOO_LONG)
def test_what_a_small_call_leaves_must_do_for_a_large_one(judge, before, launch, reads):
    """Though the problem's own shapes are the largest and come first in the trials."""
    kernels = f"KEPT = {{}}\n\n\n{KERNEL}\n{COPIES}"
    source = candidate(f"{reads}{before}", kernel=kernels, init="self.kept = None", launch=launch)
    for _ in range(2):
        verdict = judged(judge, source)
        assert verdict.status in {"incorrect", "runtime_error"}, verdict
        assert "in a process of its own" in verdict.error_message


ENDS = {
    "exits": ("os._exit(0)", "exit code 0"),
    "raises": ("raise SystemExit", "SystemExit"),
    "claims a lack of memory": ("raise MemoryError('none')", "out of memory"),
    "reads a value": ("x.flatten()[0].item()", "outside every tensor"),
}


@pytest.mark.parametrize(("ends", "says"), ENDS.values(), ids=ENDS)
def test_what_ends_a_call_in_another_order_hides_nothing(judge, ends, says):
    before, launch = KEPT_TOO_LONG["a workspace"]
    source = candidate(
        f"if self.kept is None and x.numel() < 37 * 19: {ends}\n{before}",
        kernel=KERNEL + COPIES,
        init="self.kept = None",
        launch=launch,
    )
    verdict = judge.evaluate(DOUBLE, source, trials=5, seed=None, timeout_s=20.0)
    assert verdict.status == "runtime_error", verdict
    assert says in verdict.error_message
    assert "in a process of its own" in verdict.error_message


def test_a_call_in_another_order_that_reads_a_value_may_do_so(judge):
    source = candidate(
        "if not self.calls and x.numel() < 37 * 19: x.flatten()[0].item()\nself.calls += 1", init="self.calls = 0"
    )
    for _ in range(2):
        verdict = judge.evaluate(DOUBLE, source, trials=5, seed=None, timeout_s=20.0)
        assert (verdict.status, verdict.recording) == ("correct", "detached"), verdict


@pytest.mark.parametrize(("kills", "status"), [(1, "correct"), (2, "correct"), (9, "runtime_error")])
def test_a_process_that_is_killed_in_another_order_is_tried_again(judge, monkeypatch, kills, status):
    """Detached, on the device, and once more as the candidate's only process."""
    killed, record = [], HostExecution.record_once

    def record_once(self, answer, room):
        if len(killed) < kills:
            killed.append(self.way)
            self.worker.kill()
        return record(self, answer, room)

    monkeypatch.setattr(HostExecution, "record_once", record_once)
    verdict = judge.evaluate(DOUBLE, candidate(), trials=5, seed=None, timeout_s=20.0)
    assert verdict.status == status, verdict
    assert killed[:3] == ["detached", "on_device", "on_device"][:kills]


@pytest.mark.parametrize(
    "before",
    [
        "if self.kept is None or self.kept.numel() < x.numel(): self.kept = torch.empty(x.numel(), device=x.device)",
        "if self.kept is None: self.kept = torch.empty(64 * 64, device=x.device)",
        "self.kept = self.by_shape.setdefault(x.shape, torch.empty(x.numel(), device=x.device))",
    ],
    ids=["grows", "is large", "by shape"],
)
@pytest.mark.parametrize("reads", ["", "x.flatten()[0].item()\n"], ids=["detached", "on the device"])
def test_a_workspace_that_fits_each_call_may_be_kept(judge, before, reads):
    source = candidate(
        f"{reads}{before}\nscratch = self.kept\n{SCRATCH}",
        init="self.kept, self.by_shape = None, {}",
        kernel=KERNEL + COPIES,
        launch=FROM_SCRATCH,
    )
    for _ in range(2):
        verdict = judged(judge, source)
        assert verdict.status == "correct", verdict


NUMBERED = Problem.from_source(
    f"{HEAD}class Model(nn.Module):\n    def forward(self, x, n: int):\n        return x * 2 + n\n\n"
    "def get_inputs():\n    return [torch.randn(37, 19), 12]\n",
    "numbered",
)


@pytest.mark.parametrize(("key", "status"), [("x.shape", "incorrect"), ("(x.shape, n)", "correct")])
def test_what_is_kept_is_found_by_plain_arguments_too(judge, key, status):
    source = candidate(
        f"n = self.kept.setdefault({key}, n)",
        kernel=KERNEL.replace("n, BLOCK", "n, more, BLOCK").replace("* 2.0", "* 2.0 + more"),
        init="self.kept = {}",
        launch=LAUNCH.replace("x.numel(), B", "x.numel(), n, B"),
    ).replace("forward(self, x)", "forward(self, x, n)")
    for _ in range(3):
        verdict = judged(judge, source, of=NUMBERED, trials=6)
        assert verdict.status == status, verdict


# Around it -------------------------------------------------------------------------------------------------------


def test_workers_for_detached_host_code_are_made_only_where_they_are_used():
    detached, on_device = EvaluatorConfig(), EvaluatorConfig(recording="on_device")
    assert "host" in roles_of(detached)["plain"]
    assert "host" not in [role for roles in roles_of(on_device).values() for role in roles]
    assert roles_of(EvaluatorConfig(device="cuda")) == {"plain": ("reference", "compile", "host", "candidate")}


def test_verdicts_of_both_ways_are_kept_apart():
    ways = ("detached", "on_device")
    found = [fingerprint.name_of(fingerprint.conditions_of(EvaluatorConfig(recording=way))) for way in ways]
    assert found[0] != found[1]


def test_a_device_is_described_by_what_is_reported_and_known():
    found = gpu_stand_in.properties_of({"name": "A", "multi_processor_count": 7, "unknown": 1})
    assert (found.name, found.multi_processor_count, found.major) == ("A", 7, 9)
    assert not hasattr(found, "unknown")
    assert gpu_stand_in.PROPERTIES.name != "A"


KEPT_BY_FIRST = candidate(
    "head = x[0, 0].item()\nif self.known == (head, x.shape):\n    out = torch.empty_like(x)\n"
    "    fills[(1,)](x, out, 1, BLOCK=64)\n    return out.copy_(self.kept)",
    "self.known, self.kept = (head, x.shape), out\nout = out.clone()",
    kernel=KERNEL + FILLS,
    init="self.known = self.kept = None",
)
"""Takes inputs that begin alike for the same, and launches less for them."""


@pytest.mark.parametrize("seed", range(6))
def test_each_recording_of_a_form_is_replayed_whatever_other_forms_come_between(judge, seed):
    """The second recording of the problem's own form is wrong; with a common turn some orders of trials missed it."""
    verdict = judge.evaluate(DOUBLE, KEPT_BY_FIRST, trials=3, seed=seed, timeout_s=20.0)
    assert (verdict.status, verdict.recording) == ("incorrect", "on_device"), verdict
