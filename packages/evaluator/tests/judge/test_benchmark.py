"""A ring of input sets and the witness of what timed calls leave, on a real reference and memory of the host."""

import random
from dataclasses import dataclass, field

import pytest
import torch

from warpsmith.evaluator.correctness.compare import compare
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge import benchmark
from warpsmith.evaluator.judge import ring as rings
from warpsmith.evaluator.judge.benchmark import Witness, conduct
from warpsmith.evaluator.judge.ring import make_ring
from warpsmith.evaluator.processes.lease import Lease
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import KnownTime, ReferenceSession
from warpsmith.evaluator.timing.clocks import LEAST_CALLS, PROBED

PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return x + y

def get_inputs():
    return [torch.randn(20, 30), torch.randn(20, 30)]
"""
OTHER_FORMS = PROBLEM.replace("(20, 30)", "(20, ROWS)").replace(
    "def get_inputs():\n", "MADE = []\n\ndef get_inputs():\n    MADE.append(0)\n    ROWS = 30 if {condition} else 31\n"
)


class RoomyMemory(HostDevice):
    """Memory of the host with a device's count of free bytes."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def free_bytes(self) -> int:
        return self._free_bytes


PLENTY = 1 << 30


@pytest.fixture(scope="module")
def open_session(machine):
    opened = []

    def begin(source):
        opened.append(ReferenceSession(machine, source, init_seed=3))
        opened[-1].make_inputs(1)
        return opened[-1]

    yield begin
    for session in opened:
        session.close()


@pytest.fixture(scope="module")
def session(open_session):
    return open_session(PROBLEM)


@pytest.fixture(scope="module")
def placed(session):
    return Form.of({"output": session.answer(1).output, "buffers": {}}, 1 << 20)


def of_ring(session, placed, free_bytes=PLENTY, seed=0):
    return make_ring(session, RoomyMemory(free_bytes), placed, random.Random(seed))


@dataclass
class Judging:
    """Compares as an evaluation does, and counts how often it was asked to."""

    compared: int = 0
    said: list[str] = field(default_factory=list)

    def __call__(self, answer, placed, buffer):
        self.compared += 1
        slot = next(codec.slots(placed.tree))
        self.said.append(compare(tensor_views.view(buffer, slot).clone(), answer.expected[0], 1.0).message)
        return self.said[-1]


def answer_rightly(ring, session, number):
    """Put the right answer where a timed call of the candidate delivers it."""
    x, y = (tensor_views.view(ring.inputs[number], slot) for slot in session.inputs.slots)
    delivered = tensor_views.view(ring.answers[number], ring.placed.slots[0])
    delivered.copy_(x + y)
    return delivered


def poisoned(ring, number):
    return bool((tensor_views.content(ring.answers[number]) == 0xFF).all())


# --- the ring ---


def test_a_ring_holds_different_inputs_and_no_answers(session, placed):
    ring = of_ring(session, placed)
    assert len(ring.inputs) == len(ring.answers) == rings.MOST_SETS
    contents = {bytes(tensor_views.content(buffer).numpy()) for buffer in ring.inputs}
    assert len(contents) == rings.MOST_SETS
    assert all(poisoned(ring, number) for number in range(rings.MOST_SETS))
    assert ring.fds == [buffer.fileno() for buffer in ring.shared]
    assert [part.start for part in ring.inputs] == [number * session.inputs.size for number in range(rings.MOST_SETS)]


@pytest.mark.parametrize(("free_bytes", "kept"), [(PLENTY, True), (20_000, False)])
def test_expected_answers_are_kept_where_they_are_small(session, placed, free_bytes, kept):
    ring = of_ring(session, placed, free_bytes)
    assert len(ring.expected) == len(ring.inputs)
    for number, answer in enumerate(ring.expected):
        assert (answer is not None) == kept
        if answer is not None:
            assert torch.equal(answer.expected[0].value, answer_rightly(ring, session, number))


@pytest.mark.parametrize(("sets_of_memory", "found"), [(0.5, 1), (2.5, 2), (100, rings.MOST_SETS)])
def test_what_the_calls_leave_in_the_reference_counts_where_the_room_for_answers_does_not(
    session, sets_of_memory, found
):
    """An output of 8 GB in a ring of eight sets would take 64 GB, beside a room for answers of a few bytes."""
    little, output_bytes = Form.of([tensor_views.contiguous("float32", (1,))], 1 << 20), 50 * session.inputs.size
    each = rings.COPIES * session.inputs.size + output_bytes
    memory = RoomyMemory(round(sets_of_memory * each / rings.SHARE))
    ring = make_ring(session, memory, little, random.Random(0), answered=False, output_bytes=output_bytes)
    assert len(ring.inputs) == found
    assert not any(ring.expected)


def test_integers_are_poisoned_too(session):
    placed = Form.of({"output": tensor_views.contiguous("int32", (4,)), "buffers": {}}, 1 << 20)
    ring = of_ring(session, placed)
    assert (tensor_views.raw(ring.answers[0], placed.slots[0]) == tensor_views.INTEGER_POISON).all()


@pytest.mark.parametrize(("sets", "expected"), [(0.0, 1), (0.99, 1), (1.0, 1), (3.5, 3), (7.99, 7), (8.0, 8), (99, 8)])
def test_a_ring_takes_a_share_of_the_memory(session, placed, sets, expected):
    one = rings.COPIES * session.inputs.size + placed.size
    ring = of_ring(session, placed, free_bytes=int(sets * one / rings.SHARE) + 1)
    assert len(ring.inputs) == expected


def test_other_seeds_give_other_inputs(session, placed):
    one, two = (of_ring(session, placed, seed=seed) for seed in (1, 2))
    again = of_ring(session, placed, seed=1)
    assert torch.equal(tensor_views.content(one.inputs[0]), tensor_views.content(again.inputs[0]))
    assert not torch.equal(tensor_views.content(one.inputs[0]), tensor_views.content(two.inputs[0]))


def test_sets_of_another_form_are_passed_over(open_session, placed):
    session = open_session(OTHER_FORMS.format(condition="len(MADE) % 3 == 1"))
    form = session.inputs
    ring = of_ring(session, placed)
    assert len(ring.inputs) == rings.MOST_SETS
    assert session.inputs == form


def test_a_problem_that_hardly_ever_has_the_form_cannot_be_timed(open_session, placed):
    session = open_session(OTHER_FORMS.format(condition="len(MADE) == 1"))
    with pytest.raises(BadProblemError, match="times in a row") as caught:
        of_ring(session, placed)
    assert "timing" in caught.value.remedy


# --- the witness ---


@pytest.fixture
def ring(session, placed):
    return of_ring(session, placed)


@pytest.fixture(params=["small", "large"])
def witness(session, ring, request, monkeypatch):
    """One of answers that are compared once all was timed, and one of answers that are too large to be copied."""
    monkeypatch.setattr(benchmark, "STASHED_BYTES", ring.placed.size - (request.param == "large"))
    return Witness(session, ring, Judging(), random.Random(0))


def look(witness, sets):
    witness.look(sets)
    witness.settle()


def test_right_answers_are_right_in_every_set(session, ring, witness):
    for number in range(len(ring.inputs)):
        answer_rightly(ring, session, number)
    look(witness, range(len(ring.inputs)))
    assert (witness.wrong, witness.looks, witness.compare.compared) == ("", 8, 8)


def test_every_look_poisons_again(session, ring, witness):
    answer_rightly(ring, session, 2)
    answer_rightly(ring, session, 3)
    witness.look([2])
    assert poisoned(ring, 2)
    assert not poisoned(ring, 3)


@pytest.mark.parametrize("witness", ["small"], indirect=True)
def test_small_answers_are_compared_once_all_was_timed(session, ring, witness):
    for added in (0.0, 0.0, 1.0, 0.0):
        answer_rightly(ring, session, 2).add_(added)
        witness.look([2])
    assert (witness.wrong, witness.compare.compared) == ("", 0)
    witness.settle()
    assert "600 of 600 elements" in witness.wrong
    assert witness.compare.compared == 2


def test_a_call_that_delivers_nothing_is_wrong(session, ring, witness):
    answer_rightly(ring, session, 5)
    look(witness, [5])
    assert not witness.wrong
    look(witness, [5])
    assert "600 of 600 elements" in witness.wrong


def test_the_answer_of_another_set_is_wrong(session, ring, witness):
    right = answer_rightly(ring, session, 0)
    tensor_views.view(ring.answers[1], ring.placed.slots[0]).copy_(right)
    look(witness, [1])
    assert witness.wrong


def test_the_first_wrong_answer_is_remembered(session, ring, witness):
    for number, element in ((4, 17), (6, 33)):
        answer_rightly(ring, session, number).flatten()[element] += 1.0
    look(witness, [4, 6])
    assert "1 of 600" in witness.wrong
    assert "[0, 17]" in witness.wrong
    first = witness.wrong
    answer_rightly(ring, session, 4)
    look(witness, [4])
    assert witness.wrong == first
    assert witness.looks == 3
    assert poisoned(ring, 6)


def test_an_answer_with_the_bits_of_a_right_one_needs_no_reference(session, ring, witness):
    for _ in range(3):
        answer_rightly(ring, session, 0)
        look(witness, [0])
    assert not witness.wrong
    assert witness.compare.compared == 1


def test_other_bits_are_compared_anew(session, ring, witness):
    answer_rightly(ring, session, 0)
    look(witness, [0])
    within_tolerance = answer_rightly(ring, session, 0)
    within_tolerance.mul_(1 + 1e-6)
    look(witness, [0])
    assert (witness.wrong, witness.compare.compared) == ("", 2)
    answer_rightly(ring, session, 0)[3, 4] += 1.0
    look(witness, [0])
    assert "[3, 4]" in witness.wrong


def test_the_bits_of_a_wrong_answer_are_not_kept(session, ring):
    witness = Witness(session, ring, Judging(), random.Random(0))
    for _ in range(2):
        answer_rightly(ring, session, 0)[0, 0] += 1.0
        witness.wrong = ""
        look(witness, [0])
        assert witness.wrong
    assert witness.compare.compared == 2
    assert all(witness.compare.said)


@pytest.mark.parametrize(("share", "compared"), [(2.0, 1), (0.5, 1), (0.49, 2)])
def test_a_right_answer_is_kept_where_there_is_room_for_one(session, ring, witness, share, compared):
    """Room for two is there for the expected one and one that came; where the former has none, the latter has both."""
    ring.most_kept = share * ring.placed.size
    ring.expected = [None] * len(ring.inputs)
    for _ in range(2):
        answer_rightly(ring, session, 0)
        look(witness, [0])
    assert (witness.wrong, witness.compare.compared) == ("", compared)


def test_an_answer_is_made_anew_in_the_room_of_the_one_that_was_kept(session, ring, witness, monkeypatch):
    ring.most_kept = ring.placed.size
    ring.expected = [None] * len(ring.inputs)
    kept, original = [], witness._answer
    monkeypatch.setattr(witness, "_answer", lambda number: kept.append(dict(witness._seen)) or original(number))
    for factor in (1.0, 1 + 1e-6):
        answer_rightly(ring, session, 0).mul_(factor)
        look(witness, [0])
    assert kept == [{}, {}]
    assert list(witness._seen) == [0]
    assert not witness.wrong


def test_beside_an_expected_answer_no_more_is_kept_than_there_is_room_for(session, ring, witness):
    ring.most_kept = ring.placed.size - 1
    for _ in range(2):
        answer_rightly(ring, session, 0)
        look(witness, [0])
    assert (witness.wrong, witness.compare.compared) == ("", 2)


# --- conducting ---


class Player:
    """Plays both workers' rounds; the candidate delivers what `deliver` makes, by set."""

    def __init__(self, deliver, sets=8):
        self.deliver = deliver
        self.sets = sets

    def ask(self, fields):
        if fields["mode"] != "call":
            for number in range(self.sets if fields["mode"] in {"graph", "fenced_graph"} else 0):
                self.deliver(number, fields["mode"])
            return codec.Fields({"captured": True, "calls": fields["walks"] * self.sets})
        for place in fields["deliver"]:
            self.deliver(fields["order"][place], "call")
        return codec.Fields({"milliseconds": [9.0] * len(fields["order"]), "gated": True})


@pytest.fixture
def conducted(session, ring, witness, monkeypatch):
    monkeypatch.setattr(session, "round", Player(lambda number, mode: None).ask)
    return lambda deliver: conduct(witness, Player(deliver).ask, 40, Lease())


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("witness", ["small"], indirect=True)
def test_alone_is_only_what_is_timed(session, ring, witness, monkeypatch, sequential):
    lease, held = Lease(), []

    def noted(who, asked):
        held.append((who, lease.held_here(), asked))

    class Heard(Player):
        def ask(self, fields):
            noted("candidate", (fields["mode"], len(fields["order"]), fields["count"]))
            return super().ask(fields)

    class Compared(Judging):
        def __call__(self, *what):
            noted("comparison", None)
            return super().__call__(*what)

    witness.compare = Compared()
    monkeypatch.setattr(session, "round", Player(lambda number, mode: None).ask)
    asking = Heard(lambda number, mode: answer_rightly(ring, session, number)).ask
    conduct(witness, asking, 40, lease, sequential=sequential)
    sets = len(ring.inputs)
    ready = [("call", sets, 0), ("graph", 0, 1), ("empty_graph", 0, 1), ("fenced_graph", 0, 0)]
    assert held[:4] == [("candidate", "shared", asked) for asked in ready]
    compared = [entry for entry in held if entry[0] == "comparison"]
    assert len(compared) == sets
    assert {entry[1] for entry in compared} == {"shared"}
    timed = held[4 : -len(compared)]
    probes = [asked for _, how, asked in timed if how == "shared"]
    assert bool(probes) is sequential
    assert {(mode, count) for mode, _, count in probes} <= {("graph", count) for count in PROBED}
    assert {how for _, how, _ in timed[len(probes) :]} == {"alone"}
    assert lease.held_here() == ""


def test_what_is_right_in_every_timed_call_has_a_time(session, ring, conducted):
    found = conducted(lambda number, mode: answer_rightly(ring, session, number))
    assert found.wrong == ""
    assert found.timing.candidate.calls == 40
    # A busy machine may make the reference a slow one, which is called less often.
    assert LEAST_CALLS <= found.timing.reference.calls <= 40


def test_a_references_time_is_kept_for_a_ring_of_the_same_form(session, ring, conducted, monkeypatch):
    # The clock of a busy machine may find no time at all in a few microseconds, so what it says is given here.
    of_reference = iter([5.0, 4.9, 3.0])
    monkeypatch.setattr(
        "warpsmith.evaluator.timing.clocks.judge_side", lambda side, look: 5.0 if look else next(of_reference)
    )
    monkeypatch.setattr("warpsmith.evaluator.timing.clocks.CACHED_S", 1e9)

    def judged():
        return conducted(lambda number, mode: answer_rightly(ring, session, number)).timing.reference.judge_ms

    session.known_time = None
    assert judged() == 5.0
    assert session.known_time.ring == (session.inputs, len(ring.inputs))
    assert not session.known_time.time.confirmed
    assert judged() == 4.9
    kept = session.known_time.time
    assert kept.confirmed
    assert judged() == 4.9
    session.known_time = KnownTime((Form([], 0), len(ring.inputs)), kept)
    assert judged() == 3.0
    assert session.known_time.ring == (session.inputs, len(ring.inputs))
    assert not session.known_time.time.confirmed


def test_what_was_delivered_before_the_timed_calls_is_no_answer_of_theirs(session, ring, conducted):
    made_ready = []

    def deliver(number, mode):
        if mode == "graph" and len(made_ready) < len(ring.inputs):
            made_ready.append(number)
            answer_rightly(ring, session, number)

    assert "600 of 600 elements" in conducted(deliver).wrong
    assert len(made_ready) == len(ring.inputs)


@pytest.mark.parametrize("spoilt", ["call", "graph"])
def test_what_is_wrong_in_one_kind_of_timed_call_is_found(session, ring, conducted, spoilt):
    def deliver(number, mode):
        answer = answer_rightly(ring, session, number)
        if mode == spoilt:
            answer.zero_()

    assert "of 600 elements" in conducted(deliver).wrong
