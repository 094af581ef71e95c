"""Host code that runs apart from the device: which candidates are judged so, and that the others lose nothing by it."""

import time
from collections import Counter

import pytest

from warpsmith.evaluator import EvaluatorConfig, Problem, apart, arenas, conditions, gpuhost
from warpsmith.evaluator import judge as judging
from warpsmith.evaluator.apart import ApartRun, NeedsDeviceError
from warpsmith.evaluator.config import configured
from warpsmith.evaluator.evaluation import CandidateRun
from warpsmith.evaluator.judge import Judge
from warpsmith.evaluator.pool import Machine
from warpsmith.evaluator.zygote import roles_of

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
        "apart",
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


TABLE = KERNEL.replace("x_ptr, out", "x_ptr, table_ptr, out").replace("* 2.0", "* tl.load(table_ptr)")
TABLED = LAUNCH.replace("x, out", "x, self.table, out")
DOUBLE = problem()
EXPECTED = Counter(host=1, candidate=1, compile=1, reference=1 + 8)
"""Workers at rest: one that is ready of each role, and eight sessions that are kept for their problems."""


@pytest.fixture(scope="module")
def running(config):
    judge = Judge(config.model_copy(update={"slots": 1, "host_apart": True}))
    yield judge
    judge.close()


@pytest.fixture
def judge(running, monkeypatch):
    """A judge whose `tried` says of each attempt apart from the device `apart`, or why it was none."""
    running.tried = []
    original = judging._Run._host_apart

    def told(self, session):
        try:
            found = original(self, session)
        except NeedsDeviceError as error:
            running.tried.append(str(error))
            raise
        running.tried.append("apart")
        return found

    monkeypatch.setattr(judging._Run, "_host_apart", told)
    return running


def judged(judge, source, of=DOUBLE, timeout_s=20.0, trials=5):
    before = len(judge.tried)
    verdict = judge.evaluate(of, source, trials=trials, seed=None, timeout_s=timeout_s)
    if judge.tried[before:]:
        assert verdict.host_code == ("apart" if judge.tried[-1] == "apart" else "beside")
    return verdict


# What is judged apart --------------------------------------------------------------------------------------------


def test_memory_is_used_again_for_other_forms(judge, roomy_memory, monkeypatch):
    """As on a device: forms change with the trial of other shapes and back, and few buffers come into being."""
    judged(judge, candidate())
    memory = roomy_memory()
    monkeypatch.setattr(judge.machine, "memory", memory)
    for source, status in ((candidate(), "correct"), (candidate(kernel=KERNEL.replace("* 2.0", "* 2.1")), "incorrect")):
        judge.references.drop_idle()
        memory.created.clear()
        judge.tried.clear()
        assert (judged(judge, source).status, judge.tried) == (status, ["apart"])
        assert max(Counter(memory.created).values()) == 1, memory.created


def test_an_honest_kernel_needs_no_host_code_on_the_device(judge, monkeypatch):
    monkeypatch.setattr(judging, "CandidateRun", None)
    verdict = judged(judge, candidate())
    assert (verdict.status, verdict.trials, verdict.flags, verdict.compiled) == ("correct", 5, (), True)
    assert judge.tried == ["apart"]


ON_A_DEVICE = """\
assert torch.cuda.is_available() and x.is_cuda and x.device.type == "cuda" and x.device == torch.device("cuda", 0)
properties = torch.cuda.get_device_properties(x.device)
assert properties.multi_processor_count == 132 and torch.cuda.get_device_capability() == (9, 0)
assert torch.empty(3, device=x.device).device == x.device and torch.zeros(2, device="cuda").is_cuda
assert x.cuda() is x and x.to("cuda").shape == x.shape"""


def test_host_code_takes_itself_to_be_on_a_device(judge):
    assert judged(judge, candidate(ON_A_DEVICE)).status == "correct"
    assert judge.tried == ["apart"]


def test_host_code_has_no_content_and_no_gpu(judge):
    """What it finds where its input lies is zeroes, whatever the trial; and what it writes there is nobody's answer."""
    reads = "import ctypes\nassert not any(ctypes.string_at(x.data_ptr(), x.numel() * 4))"
    writes = "import ctypes\nctypes.memset(out.data_ptr(), 1, 64)"
    nodes = "assert not [name for name in os.listdir('/dev') if name.startswith('nvidia')]"
    assert judged(judge, candidate(f"{reads}\n{nodes}", writes)).status == "correct"
    assert judge.tried == ["apart"]


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
def test_what_a_kernel_does_wrong_is_told_as_ever(judge, source, status, says):
    verdict = judged(judge, source)
    assert (verdict.status, says in verdict.error_message) == (status, True), verdict
    assert judge.tried == ["apart"]


def test_a_kernel_beside_copies_that_do_all_is_a_decoy(judge):
    copies = candidate(
        after="out.copy_(x)",
        kernel=KERNEL.replace("* 2.0, mask=at < n", "* 0.0, mask=at < 0"),
        out="torch.empty_like(x)",
    )
    verdict = judged(judge, copies, of=problem("x.clone()"))
    assert (verdict.status, verdict.flags) == ("rejected", ("decoy_kernel",)), verdict
    assert judge.tried == ["apart"]


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


def test_host_code_is_called_no_more_often_than_that_tells(judge, monkeypatch):
    called = []
    original = ApartRun._called
    monkeypatch.setattr(
        ApartRun, "_called", lambda self, answer: called.append(self.session.inputs) or original(self, answer)
    )
    assert judged(judge, candidate("# many"), trials=12).status == "correct"
    assert sum(inputs == called[0] for inputs in called) == apart.MOST_CALLS
    called.clear()
    large = candidate(kernel=TABLE, init="self.table = torch.full((1 << 20,), 2.0)", launch=TABLED)
    assert judged(judge, large, trials=12).status == "correct"
    assert len(called) == 1


def test_weights_are_those_of_the_problem(judge):
    weighted = problem("x * self.scale", init="self.scale = nn.Parameter(torch.randn(19))")
    kernel = KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + at % 19)")
    source = candidate(
        kernel=kernel,
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=LAUNCH.replace("x, out", "x, self.scale, out"),
    )
    assert judged(judge, source, of=weighted).status == "correct"
    assert judge.tried == ["apart"]


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
    assert judge.tried == ["apart", "apart"]


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
    assert judge.tried == ["apart"]


@pytest.mark.parametrize("trials", [1, 5, pytest.param(150, marks=pytest.mark.slow)])
def test_all_trials_are_replays_in_one_worker(judge, trials):
    verdict = judged(judge, candidate(f"# {trials}"), trials=trials, timeout_s=120.0)
    assert (verdict.status, verdict.trials) == ("correct", trials), verdict
    assert judge.tried == ["apart"]


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
    assert "apart" in judge.tried


def test_host_code_has_ended_before_anything_is_timed(judge, monkeypatch):
    threads = "import threading\nthreading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()"
    alive = []
    original = ApartRun._replay_without_host_code

    def seen(self, rng):
        alive.append(self.worker.alive)
        return original(self, rng)

    monkeypatch.setattr(ApartRun, "_replay_without_host_code", seen)
    assert judged(judge, candidate(threads)).status == "correct"
    assert alive == [False]


# What is not -----------------------------------------------------------------------------------------------------

TUNED = KERNEL.replace(
    "@triton.jit",
    '@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])\n@triton.jit',
)


@pytest.mark.parametrize(
    ("source", "why", "status"),
    [
        (candidate("factor = float(x.flatten()[0].item())"), "reads a tensor's content", "correct"),
        (candidate("if x.flatten()[0] > 100: x = x.clone()"), "reads a tensor's content", "rejected"),
        (candidate("x.tolist()"), "what a kernel should", "rejected"),
        (candidate("torch.relu(x)"), "what a kernel should", "rejected"),
        (candidate(kernel=TUNED, launch=LAUNCH.replace(", BLOCK=64", "")), "is autotuned", "correct"),
        (candidate(init="self.calls = 0", before="self.calls += 1\nif self.calls > 3: x = x.clone()"),
         "same in each call", "correct"),
        (candidate(kernel=TABLE, init="self.table = torch.full((4,), 2.0)", launch=TABLED),
         "made before it", "correct"),
        (candidate(kernel=TABLE, init="self.table = nn.Parameter(torch.full((4,), 2.0))", launch=TABLED),
         "made before it", "correct"),
        (candidate(out="torch.empty(x.shape)"), "what a kernel should", "correct"),
        (candidate(out='torch.empty(x.shape, device=torch.device("cpu"))'), "what a kernel should", "correct"),
        (candidate(out="torch.Tensor(*x.shape)"), "does not tell its device", "correct"),
        (candidate(out="torch.ops.aten.empty.memory_format(list(x.shape))"), "does not tell its device", "correct"),
        (candidate(init="self.k = float(torch.rand(()))"), "reads a tensor's content", "correct"),
        (candidate(init="self.k = torch.randperm(3).tolist()"), "constructor calls Tensor.tolist", "correct"),
        (candidate(after="return out.t()"), "returns something else", "incorrect"),
        (candidate("x = x.to(torch.bfloat16).to(torch.float32)"), "bfloat16 is not supported", "runtime_error"),
        (candidate("raise ValueError('no')"), "ValueError", "runtime_error"),
        (candidate("os._exit(3)"), "exit code 3", "runtime_error"),
        (candidate(launch="out.copy_(x)"), "launches nothing", "rejected"),
        (candidate("torch.tril(x)"), "what a kernel should", "rejected"),
        (candidate(after="for i in range(300): kernel[(1,)](x, out, 2 + i, BLOCK=64)"),
         "more than is taken", "runtime_error"),
    ],
    ids=["item", "branch", "list", "torch", "autotuned", "calls", "table", "parameter", "host",
         "named host", "legacy", "operator", "random", "permutation", "form", "bfloat16", "raises", "exits",
         "no kernel", "tril", "many"],
)  # fmt: skip
def test_what_needs_the_device_is_judged_there(judge, source, why, status):
    verdict = judged(judge, source)
    assert verdict.status == status, verdict
    assert len(judge.tried) == 1
    assert why in judge.tried[0]


@pytest.mark.parametrize(
    "source",
    [
        candidate(launch=f"found = {LAUNCH}", after="found.n_regs"),
        candidate("known = kernel.warmup(x, x, 1, BLOCK=64, grid=(1,))\nknown._init_handles()\nknown.metadata.shared"),
        candidate("import torch.nn.functional as F\nF.pad(x, (1, 1))"),
    ],
    ids=["registers", "warmup", "pad"],
)
def test_what_no_verdict_depends_on_is_judged_apart(judge, source):
    verdict = judged(judge, source)
    assert (verdict.status, judge.tried[-1]) == ("correct", "apart")


def test_what_is_judged_anew_finds_the_state_as_it_was(judge, monkeypatch):
    """Parameters have been changed for a trial by the time that other shapes are found to need the device."""
    weighted = problem("x * self.scale", "torch.randn(64, 19)", init="self.scale = nn.Parameter(torch.randn(19))")
    kernel = KERNEL.replace("x_ptr, out", "x_ptr, scale_ptr, out").replace("* 2.0", "* tl.load(scale_ptr + at % 19)")
    source = candidate(
        "if x.shape[0] != 64: raise ValueError('other shapes')",
        kernel=kernel,
        init="self.scale = nn.Parameter(torch.ones(19))",
        launch=LAUNCH.replace("x, out", "x, self.scale, out"),
    )
    found = []
    original = CandidateRun._load

    def load(self):
        found.append(bool((self.session._pristine == arenas.content(self.session.state_buffer)).all()))
        return original(self)

    monkeypatch.setattr(CandidateRun, "_load", load)
    for seed in range(6):
        judge.evaluate(weighted, source, trials=8, seed=seed, timeout_s=20)
    assert found
    assert all(found)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (
            problem("x * 2 + 0 * self.scale", init="self.scale = nn.Parameter(torch.ones(19))"),
            "parameters of the problem",
        ),
        (problem(init="pass", arguments="torch.ones(3)"), "constructor is given tensors"),
    ],
    ids=["parameter", "tensor for the constructor"],
)
def test_a_candidate_with_another_state_than_parameters_is_judged_on_the_device(judge, of, why):
    source = candidate(init='self.register_buffer("kept", torch.ones(19))')
    assert judged(judge, source, of=of).status == "correct"
    assert why in judge.tried[0]


def test_a_large_problem_is_judged_on_the_device(judge, monkeypatch):
    monkeypatch.setattr(apart, "MOST_BYTES", 4096)
    assert judged(judge, candidate()).status == "correct"
    assert judge.tried == ["its tensors are large"]


def test_a_problem_that_is_known_to_be_large_is_not_tried_apart(judge, monkeypatch):
    assert judged(judge, candidate()).host_code == "apart"
    monkeypatch.setattr(apart, "MOST_BYTES", 2048)
    taken: list[str] = []
    take = Machine.take
    monkeypatch.setattr(
        Machine, "take", lambda self, role, timeout_s: taken.append(role) or take(self, role, timeout_s)
    )
    assert judged(judge, candidate()).status == "correct"
    assert (judge.tried, "host" in taken) == (["apart", "its tensors are large"], False)
    assert "candidate" in taken


def test_other_shapes_make_no_problem_a_large_one(judge, monkeypatch):
    """What a session made last may be of other shapes than the sample's, of which alone the size says something."""
    with judge.references.lent(DOUBLE.key, DOUBLE.source) as session:
        for seed in range(2):
            session.make_inputs(seed)
        sampled = session.inputs.size
        session.make_inputs(2, {name: 2 * value for name, value in session.sizes.items()})
        assert session.inputs.size > 2 * sampled
        monkeypatch.setattr(apart, "MOST_BYTES", sampled)
        apart.check_problem(session)
        monkeypatch.setattr(apart, "MOST_BYTES", sampled - 1)
        with pytest.raises(NeedsDeviceError, match="large"):
            apart.check_problem(session)


def test_of_inputs_that_vary_in_form_nothing_is_known(judge, monkeypatch):
    """Which set came last is no fact of the problem, and two evaluations with one seed are to go the same way."""
    varying = problem(inputs="torch.randn(30 + int(torch.randint(8, ())), 19)")
    with judge.references.lent(varying.key, varying.source) as session:
        assert session.steady_bytes == 0
        for seed in range(40):
            session.make_inputs(seed)
        assert session.steady_bytes == 0
        monkeypatch.setattr(apart, "MOST_BYTES", 2000)
        assert session.inputs.size > 2000
        apart.check_problem(session)


def test_host_code_without_end_gets_little_of_the_time(judge, monkeypatch):
    monkeypatch.setattr(apart, "HOST_S", 0.5)
    verdict = judged(judge, candidate("while True: pass"), timeout_s=3.0)
    assert verdict.status == "timeout"
    assert "did not finish" in judge.tried[0]


FORGED = """\
from warpsmith.evaluator import _native, protocol, wire
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
    ],
)
def test_forged_messages_of_host_code_bring_it_before_the_device(judge, kind, fields):
    verdict = judged(judge, candidate(FORGED.format(kind=kind, fields=fields)))
    assert verdict.status != "correct"
    assert len(judge.tried) == 1
    assert judge.tried != ["apart"]


def test_no_worker_is_lost_either_way(judge):
    for source in (candidate(), candidate("x.flatten()[0].item()"), candidate("os._exit(1)")):
        judged(judge, source)
    deadline = time.monotonic() + 20
    while (left := Counter(worker.role for worker in judge.machine._workers() if worker.alive)) > EXPECTED:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


# Around it -------------------------------------------------------------------------------------------------------


def test_workers_for_host_code_are_made_only_where_they_are_used():
    beside, apart_from = EvaluatorConfig(), EvaluatorConfig(host_apart=True)
    assert "host" not in [role for roles in roles_of(beside).values() for role in roles]
    assert "host" in roles_of(apart_from)["plain"]
    assert roles_of(EvaluatorConfig(device="cuda")) == {"plain": ("reference", "compile", "candidate", "host")}
    assert roles_of(EvaluatorConfig(device="cuda", host_apart=False))["plain"][-1] == "candidate"


def test_host_code_runs_apart_on_a_gpu_unless_it_is_told_otherwise():
    assert [EvaluatorConfig(device=device).host_apart for device in ("cpu", "cuda")] == [False, True]
    assert [configured(device="cuda", host_apart=way).host_apart for way in (None, False)] == [True, False]
    told = EvaluatorConfig.model_validate_json(EvaluatorConfig(device="cuda", host_apart=False).model_dump_json())
    assert not told.host_apart


def test_verdicts_of_both_ways_are_kept_apart():
    found = [conditions.name_of(conditions.conditions_of(EvaluatorConfig(host_apart=way))) for way in (False, True)]
    assert found[0] != found[1]


def test_a_device_is_described_by_what_is_told_and_known():
    found = gpuhost.properties_of({"name": "A", "multi_processor_count": 7, "unknown": 1})
    assert (found.name, found.multi_processor_count, found.major) == ("A", 7, 9)
    assert not hasattr(found, "unknown")
    assert gpuhost.PROPERTIES.name != "A"
