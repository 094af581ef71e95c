"""Sizes found in a problem's source, and the inputs and answers that other sizes give."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warpsmith.evaluator import BadProblemError, Problem
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.named_sizes import InputSizes
from warpsmith.evaluator.reference.session import ReferenceSession
from warpsmith.evaluator.reference.shape_variation import AnsweredForm, Resizing, answer_to_others, learn, smaller
from warpsmith.evaluator.reference.variability import learn as learn_problem

HEAD = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, *x):\n        "


def sizes_of(source: str) -> InputSizes:
    namespace: dict = {}
    exec(source, namespace)
    return InputSizes(source, namespace, Path("problem.py"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("N = 16\ndef get_inputs(): return [N]", {"N": 16}),
        ("B, N = 8, 2 * 64\ndef get_inputs(): return [B, N]", {"B": 8, "N": 128}),
        ("N: int = 16\nshape = (N, 3)\ndef get_inputs(): return [shape]", {"N": 16}),
        ("def get_inputs(): return [16, 16, 40, 3]", {"literal 16": 16, "literal 40": 40}),
        ("N = 16\ndef make(): return N\ndef get_inputs(): return [make()]", {"N": 16}),
        ("N = 16\ndef get_inputs(): return [N]\ndef get_init_inputs(): return [N]", {}),
        ("N = 16\nD = N * 2\ndef get_inputs(): return [N]\ndef get_init_inputs(): return [D]", {}),
        ("N = 16\nclass Model:\n    n = N\ndef get_inputs(): return [N]", {}),
        ("N = 16\ndef helper(): return N\nclass Model:\n    n = helper()\ndef get_inputs(): return [N]", {}),
        ("N = 16\nN = 32\ndef get_inputs(): return [N]", {}),
        ("N = 16\nfor N in range(30): pass\ndef get_inputs(): return [N]", {}),
        ("N = 16\ndef get_inputs():\n    global N\n    return [N]", {}),
        ("def get_inputs(): return [16]\ndef get_init_inputs(): return [16]", {}),
        ("N = True\nF = 16.0\nS = 3\ndef get_inputs(): return [N, F, S, 1 << 40]", {"literal 40": 40}),
        ("N = 16\nM = 32\ndef get_inputs(): return [M]", {"M": 32}),
        ("get_inputs = lambda: [16]", {}),
    ],
)
def test_sizes_are_what_get_inputs_alone_depends_on(source, found):
    assert sizes_of(source).values == found


SIZES = "B, D, PAGES, BLOCK, MOST"
PAGED = f"{SIZES} = 3, 160, 160, 8, {{most}}\ndef get_inputs():\n    return [{SIZES}, {{made}}]"


@pytest.mark.parametrize(
    ("written", "most"),
    [
        ("[5, 32, 17]", 4),  # the longest fills its blocks
        ("[5, 30, 17]", 4),  # and does not
        ("[5, 31, 17]", 4),  # indices below 32
        ("[5, 30, 17]", 8),  # there are more blocks than it needs
        ("[5, 10, 17]", 4),  # the sum
        ("[0, 5, 15, 32]", 4),  # offsets
        ("[[5, 30], [17, 0]]", 4),
    ],
)
def test_of_two_sizes_whose_product_a_written_list_rests_on_none_is_changed(written, most):
    made = f"torch.tensor({written}, dtype=torch.int32)"
    found = sizes_of("import torch\n" + PAGED.format(most=most, made=made)).values
    assert found == {"D": 160, "PAGES": 160}
    inside = PAGED.replace("\ndef get_inputs():\n    return", ";return").replace(";", "\n    ")
    inside = "import torch\ndef get_inputs():\n    " + inside.format(most=most, made=made)
    assert sizes_of(inside).values == {"literal 160": 160}


@pytest.mark.parametrize("written", ["[1, 0, 1]", "[[0, 1], [1, 0]]", "torch.arange(3)", "[0.5, 32.0]"])
def test_sizes_that_no_written_list_reaches_may_change(written):
    source = "import torch\n" + PAGED.format(most=4, made=f"torch.tensor({written})")
    assert {"BLOCK", "MOST"} <= sizes_of(source).values.keys()


def test_a_product_of_a_size_and_a_small_number_is_tied_to_a_list_only_where_it_is_in_it():
    source = "import torch\nB, S = 2, 40\ndef get_inputs(): return [B, S, torch.tensor({})]"
    assert sizes_of(source.format("[1, 2, 77]")).values == {}
    assert sizes_of(source.format("[1, 2, 6]")).values == {"S": 40}
    assert sizes_of(source.format("[1, 79, 3]")).values == {}
    assert sizes_of(source.format("[1, 2, 70]")).values == {"S": 40}


def test_other_sizes_reach_constants_helpers_and_literals_and_nothing_else():
    source = (
        "calls = []\nN = 16\nshape = (N, 2 * N)\ndef make(): return list(shape)\n"
        "def get_inputs(): return make() + [N, 40, 40, len(calls)]\n"
    )
    sizes = sizes_of(source)
    assert sizes.get_inputs({"N": 9, "literal 40": 31})() == [9, 18, 9, 31, 31, 0]
    assert sizes.get_inputs({"N": 11})() == [11, 22, 11, 40, 40, 0]


@pytest.mark.parametrize(("size", "step"), [(5, 1), (6, 1), (1000, 1), (80, 16), (96, 16), (56, 4), (3 << 29, 1)])
def test_a_smaller_size_is_an_odd_multiple_of_its_step_and_half_the_size_at_least(size, step):
    for seed in range(50):
        found = smaller(size, step, random.Random(seed))
        assert size / 2 <= found < size
        assert found % step == 0 and (found // step % 2 == 1 or size % 2 == 1)


@pytest.mark.parametrize("size", [4, 16, 32, 64, 1 << 30])
def test_a_power_of_two_becomes_its_half_every_time(size):
    assert {smaller(size, 1, random.Random(seed)) for seed in range(20)} == {size // 2}


def test_a_size_that_has_no_odd_multiple_below_it_gets_an_even_one():
    assert smaller(48, 16, random.Random(0)) == 32


def test_a_size_that_cannot_be_smaller_stays():
    assert smaller(24, 24, random.Random(0)) == 24


def resizings_of(session: ReferenceSession) -> tuple[Resizing, ...]:
    session.make_inputs(1)
    return learn(session, random.Random(0), AnsweredForm.of(session.inputs, session.answer(0)))


REGULAR = [
    ("torch.randn(64, 96)", 16),
    ("torch.randn(24, 40 * 2)", 16),
    ("torch.randn(12, 7 * 16)", 16),
    ("torch.randn(20, 30)", 1),
]


@pytest.mark.parametrize(("made", "divisor"), REGULAR)
def test_in_the_last_way_dimensions_stay_powers_of_two_and_multiples_of_sixteen(session_of, made, divisor):
    session = session_of(HEAD + "return x[0] * 2" + inputs(made))
    *_, found = resizings_of(session)
    columns = set()
    for seed in range(8):
        if answer_to_others(session, found, random.Random(seed)):
            rows, width = session.inputs.slots[0].shape
            columns.add(width)
            assert "64" not in made or rows in {16, 32}
            assert width % divisor == 0
    assert columns


def inputs(*made: str) -> str:
    return f"\ndef get_inputs():\n    return [{', '.join(made)}]\n"


@pytest.mark.parametrize(
    ("forward", "made", "found"),
    [
        ("return x[0] + x[1]", ("torch.randn(20, 30)", "torch.randn(30)"), {20, 30}),
        ("return x[0] @ x[1]", ("torch.randn(20, 30)", "torch.randn(30, 40)"), {20, 30, 40}),
        ("return x[0] @ torch.ones(30, 5)", ("torch.randn(20, 30)",), {20}),
        ("return x[0].view(-1, 2, 4).sum(1)", ("torch.randn(32, 8)",), {32}),
        ("return x[0].view(20, -1) * 2", ("torch.randn(20, 30)",), {30}),
        ("return x[0][x[1]]", ("torch.randn(64, 8)", "torch.randint(0, 64, (50,))"), {64, 8, 50}),
        ("return x[0] * 2", ("torch.randn(3)",), set()),
        ("assert x[0].shape == (20, 30)\n        return x[0] * 2", ("torch.randn(20, 30)",), set()),
        ("return x[0] * 2\nROWS = __import__('itertools').count(9)", ("torch.randn(next(ROWS), 16)",), set()),
    ],
)
def test_a_problem_lets_change_what_its_answer_follows(session_of, forward, made, found):
    learned = learn_problem(session_of(HEAD + forward + inputs(*made)), hidden_shapes=True)
    for way in learned.resizings or [None]:
        assert set(way.sizes.values() if way else ()) == found


@pytest.mark.parametrize(
    ("made", "forward"),
    [
        ("torch.randn(10, 40), torch.randint(0, 40, (10, 25))", "torch.gather(x[0], 1, x[1])"),
        ("torch.randn(24, 9), torch.randint(0, 9, (24,))", "torch.take_along_dim(x[0], x[1][:, None], 1)"),
    ],
)
def test_what_comes_first_in_several_shapes_stays_equal(session_of, made, forward):
    session = session_of(HEAD + f"return {forward}" + inputs(made))
    for way in resizings_of(session):
        for seed in range(4):
            assert answer_to_others(session, way, random.Random(seed))
            assert len({slot.shape[0] for slot in session.inputs.slots}) == 1


FREE = [
    ("torch.randn(64, 96)", "x[0] * 2", [(64, 96)]),
    ("torch.randn(32, 32)", "x[0].t() * 2", [(32, 32)]),
    ("torch.randn(16, 8), torch.randn(8, 16)", "x[0] @ x[1]", [(16, 8), (8, 16)]),
]


@pytest.mark.parametrize(("made", "forward", "shapes"), FREE)
def test_in_the_first_way_dimensions_are_odd_and_equal_ones_differ(session_of, made, forward, shapes):
    session = session_of(HEAD + f"return {forward}" + inputs(made))
    first, *_ = resizings_of(session)
    for seed in range(8):
        assert answer_to_others(session, replace(first, batches=()), random.Random(seed))
        found = [slot.shape for slot in session.inputs.slots]
        assert all(size % 2 for shape in found for size in shape), found
        assert [len(shape) for shape in found] == [len(shape) for shape in shapes]
        assert len(found) > 1 or found[0][0] != found[0][1]
        assert len(found) < 2 or (found[0][1] == found[1][0] and found[0][0] != found[1][1])


@pytest.mark.parametrize(
    ("made", "forward", "batches"),
    [
        ("torch.randn(16, 64)", "x[0] * 2", ("literal 16",)),
        ("torch.randn(16, 64)", "x[0].var(0)", ()),
        ("torch.randn(64)", "x[0] * 2", ()),
        ("torch.randn(16, 64), torch.randn(16, 1)", "x[0] * x[1]", ("literal 16",)),
    ],
)
def test_a_leading_dimension_can_be_one_where_the_problem_allows_it(session_of, made, forward, batches):
    session = session_of(HEAD + f"return {forward}" + inputs(made))
    first, *others = resizings_of(session)
    assert first.batches == batches
    assert not any(way.batches for way in others)
    drawn = [first.draw(random.Random(seed)) for seed in range(40)]
    assert any(1 in sizes.values() for sizes in drawn) is bool(batches)


def test_tensors_written_with_the_same_shape_keep_the_same_one(session_of):
    forward = "return torch.stack([one[: len(x[1])].sum(0) for one in x])"
    session = session_of(HEAD + forward + inputs("torch.randn(24, 10)", "torch.randn(24, 10)"))
    first, *_ = resizings_of(session)
    for seed in range(8):
        assert answer_to_others(session, first, random.Random(seed))
        one, other = session.inputs.slots
        assert one.shape == other.shape


def test_a_problem_that_halves_a_dimension_gets_even_sizes(session_of):
    session = session_of(HEAD + "return x[0].view(x[0].shape[0], 2, -1).sum(1)" + inputs("torch.randn(20, 30)"))
    found = resizings_of(session)
    assert [(way.regular, way.aligned) for way in found] == [(False, "none"), (False, "rows"), (True, "none")]
    for way in found:
        assert way.coarse
        drawn = [replace(way, batches=()).draw(random.Random(seed)) for seed in range(8)]
        assert {sizes["literal 30"] % 2 for sizes in drawn} == {0}
        assert {sizes["literal 20"] % 2 for sizes in drawn} == {int(way is found[0])}


@pytest.mark.parametrize(
    "fault", ["__import__('os').abort()", "__import__('ctypes').string_at(0)", "raise MemoryError"]
)
def test_sizes_at_which_the_reference_faults_are_given_up_and_not_the_problem(session_of, fault):
    source = HEAD + f"if x[0].shape[1] != 30: {fault}\n        return x[0] * 2" + inputs("torch.randn(20, 30)")
    session = session_of(source)
    learned = learn_problem(session, hidden_shapes=True)
    assert {tuple(way.sizes.items()) for way in learned.resizings} == {(("literal 20", 20),)}
    session.make_inputs(1)
    assert torch.isfinite(session.answer(0).expected[0].value).all()


def test_hidden_shapes_can_be_left_out(session_of):
    session = session_of(HEAD + "return x[0] * 2" + inputs("torch.randn(20, 32)"))
    assert learn_problem(session, hidden_shapes=False).resizings == ()


def test_inputs_too_large_for_the_judge_leave_the_session_usable(machine, session_of, monkeypatch):
    monkeypatch.setattr(machine, "config", machine.config.model_copy(update={"max_tensor_bytes": 1 << 16}))
    session = session_of(HEAD + "return x[0] * 2\nrows = 20" + inputs("torch.randn(rows, 32)"))
    session.make_inputs(1)
    with pytest.raises(BadProblemError, match="max_tensor_bytes"):
        session.make_inputs(2, {"rows": 600})
    session.make_inputs(1)
    assert torch.isfinite(session.answer(0).expected[0].value).all()


ABSOLUTE = HEAD + "return torch.abs(x[0])" + inputs("torch.randn(12, 20)")
BY_DESCRIPTORS = """
import torch
import triton
import triton.language as tl

@triton.jit
def abs_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    out.store([0, 0], tl.abs(x.load([0, 0])))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device=x.device))
        out = torch.empty_like(x)
        abs_kernel[(1,)](x, out, x.shape[0], x.shape[1], BLOCK=32)
        return out
"""


BY_DESCRIPTORS_OF_THE_HOST = """
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def abs_kernel(x, out):
    out.store([0, 0], tl.abs(x.load([0, 0])))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        abs_kernel[(1,)](*(TensorDescriptor.from_tensor(tensor, [32, 32]) for tensor in (x, out)))
        return out
"""


@pytest.mark.parametrize(
    "candidate", [BY_DESCRIPTORS, BY_DESCRIPTORS_OF_THE_HOST], ids=["in the kernel", "on the host"]
)
def test_where_triton_cannot_form_blocks_of_other_shapes_coarser_ones_are_drawn(evaluator, candidate):
    verdict = evaluator.evaluate(Problem.from_source(ABSOLUTE, "absolute"), candidate)
    assert (verdict.status, verdict.flags, verdict.trials) == ("correct", (), 7)


@pytest.mark.parametrize(
    "wrong",
    [
        ("abs_kernel[(1,)]", "x = x if x.shape[1] == 20 else x.as_strided(x.shape, (1, 1))\n        abs_kernel[(1,)]"),
        ("TensorDescriptor.from_tensor(tensor, [32, 32])", "TensorDescriptor(tensor, [12, 20], [20, 1], [32, 32])"),
    ],
    ids=["no descriptor of other shapes", "the shape of the sample"],
)
def test_descriptors_do_not_keep_a_wrong_kernel_from_other_shapes(evaluator, wrong):
    candidate = BY_DESCRIPTORS_OF_THE_HOST.replace(*wrong)
    assert candidate != BY_DESCRIPTORS_OF_THE_HOST
    verdict = evaluator.evaluate(Problem.from_source(ABSOLUTE, "absolute"), candidate)
    assert verdict.status == "incorrect", verdict


def test_rows_of_descriptors_keep_their_alignment_and_other_sizes_need_not():
    sample = AnsweredForm(Form((TensorSlot("float16", (40, 24), (24, 1)),), 1920), (), {})
    rows = Resizing(sample, {"m": 40, "n": 24}, keeps_narrow=True, aligned="rows", regular=False)
    drawn = [rows.draw(random.Random(seed)) for seed in range(40)]
    assert {sizes["n"] % 8 for sizes in drawn} == {0}
    assert any(sizes["m"] % 8 for sizes in drawn)
    assert replace(rows, sizes={"m": 40}, aligned="all").draw(random.Random(1))["m"] % 8 == 0


def test_a_candidate_that_says_so_itself_is_wrong(evaluator):
    said = 'if x.shape[1] != 20: raise AssertionError("stride must be 16-byte aligned")\n        out ='
    verdict = evaluator.evaluate(
        Problem.from_source(ABSOLUTE, "absolute"), BY_DESCRIPTORS.replace("out = torch", f"{said} torch")
    )
    assert verdict.status == "incorrect"
    assert "other shapes" in verdict.error_message


HELD = {
    "a list": "import torch\nDIMS = [24, 96]\ndef get_inputs(): return list(torch.empty(*DIMS).shape)",
    "a list unpacked": "DIMS = [24, 96]\nrows, columns = DIMS\ndef get_inputs(): return [rows, columns]",
    "a tuple": "SHAPE = (24, 96)\ndef get_inputs(): return [*SHAPE]",
    "a dict": "CONFIG = {'rows': 24, 'sizes': (96,)}\ndef get_inputs(): return [CONFIG['rows'], CONFIG['sizes'][0]]",
    "a class": "class C:\n    rows = 24\n    columns: int = 96\ndef get_inputs(): return [C.rows, C.columns]",
    "defaults of a helper": "def make(rows=24, columns=96): return [rows, columns]\ndef get_inputs(): return make()",
    "a helper": "def make():\n    rows = 24\n    return [rows, 96]\ndef get_inputs(): return make()",
}


@pytest.mark.parametrize("name", HELD)
def test_sizes_may_stand_in_what_get_inputs_alone_uses(name):
    sizes = sizes_of(HELD[name])
    assert sizes.values == {"literal 24": 24, "literal 96": 96}
    assert sizes.get_inputs({"literal 24": 17, "literal 96": 83})() == [17, 83]
    assert sizes.get_inputs({"literal 96": 51})() == [24, 51]
    assert sizes.get_inputs({})() == [24, 96]


@pytest.mark.parametrize(
    "source",
    [
        "SHAPE = (24, 96)\nclass Model:\n    def f(self): return SHAPE\ndef get_inputs(): return [*SHAPE]",
        "class C:\n    rows = 24\ndef get_init_inputs(): return [C.rows]\ndef get_inputs(): return [C.rows]",
        "class Maker:\n    rows = 24\n    def f(self): return 96\ndef get_inputs(): return [Maker.rows]",
        "LENGTHS = [24, 96]\ndef get_inputs(): return [*LENGTHS]",
        "NAMES = {24: 'a', 96: 'b'}\ndef get_inputs(): return [NAMES]",
    ],
)
def test_what_the_model_uses_and_what_is_data_is_no_size(source):
    assert sizes_of(source).values == {}
