"""Problems with several workloads: reading the constant, deriving a problem for each, combining their verdicts."""

import ast
import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator import BadProblemError, Client, Problem, Seconds, Verdict
from warpsmith.evaluator.client.request import MAX_SOURCE_BYTES, EvaluationRequest
from warpsmith.evaluator.combined_verdict import combined, judged_on_each, judged_on_each_async
from warpsmith.evaluator.server.answers import VerdictRecord
from warpsmith.evaluator.verdict import STATUSES, invalid
from warpsmith.evaluator.verdict_lines import workload_lines
from warpsmith.evaluator.workloads import workloads_of

SOURCE = """\
import torch
import torch.nn as nn

ROWS = 6
DTYPE = torch.float32
WORKLOADS = {{
    "small": {small},
    "large": {large},
}}

class Model(nn.Module):
    def forward(self, x, y):
        return x + y

def get_inputs():
    return [torch.randn(ROWS, 30, dtype=DTYPE), torch.randn(ROWS, 30, dtype=DTYPE)]
"""
ADD = Problem.from_source(SOURCE.format(small='{"ROWS": 4}', large='{"ROWS": 40, "DTYPE": torch.float16}'), "add")
CORRECT = Verdict("correct", compiled=True, correct=True, trials=2, device="cpu", isolation_tier="namespaces")


def timed(runtime_ms, reference_ms, **others):
    speedup = reference_ms / runtime_ms
    times = {"speedup": speedup, "runtime_ms": runtime_ms, "reference_ms": reference_ms, "timing_tier": "two_clocks"}
    tables = {"speedups": {"eager": speedup}, "references_ms": {"eager": reference_ms}}
    return replace(CORRECT, **times, **tables, **others)


def as_said(message, part):
    return message


def failed(status, **others):
    return Verdict(status, compiled=True, correct=False, **others)


def test_each_workload_is_the_module_with_other_constants():
    small, large = workloads_of(ADD)
    assert (small.name, large.name, large.problem.name) == ("small", "large", "add [large]")
    assert "ROWS = 4\nDTYPE = torch.float32\n" in small.problem.source
    assert "ROWS = 40\nDTYPE = torch.float16\n" in large.problem.source
    lines = ADD.source.split("\n")
    assert [line for line in large.problem.source.split("\n") if line not in lines] == [
        "ROWS = 40", "DTYPE = torch.float16", "WORKLOADS = (None", ")"
    ]  # fmt: skip
    assert large.problem.source.split("\n").index("class Model(nn.Module):") == lines.index("class Model(nn.Module):")
    assert workloads_of(large.problem) == ()
    assert small.problem.key != large.problem.key


def test_other_problems_have_none(add_problem):
    assert workloads_of(add_problem) == ()
    assert workloads_of(Problem.from_source(f"{add_problem.source}\n# WORKLOADS = 3\n")) == ()


VALUES = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
)


@given(VALUES, VALUES, st.sampled_from(("\n", "\r\n")), st.text(min_size=1, max_size=10))
def test_any_literal_takes_the_place_of_any_other(before, after, line_end, name):
    source = (
        f"Ä = {before!r}; B = [\n 1]\nWORKLOADS = {{{name!r}: {{'Ä': {after!r}, 'B': 'one\\ntwo'}}}}\nC = 1\n"
        "class Model: pass\ndef get_inputs(): pass\n"
    )
    (one,) = workloads_of(Problem.from_source(source.replace("\n", line_end)))
    body = ast.parse(one.problem.source).body
    values = {node.targets[0].id: ast.literal_eval(node.value) for node in body if isinstance(node, ast.Assign)}
    assert values == {"Ä": after, "B": "one\ntwo", "WORKLOADS": None, "C": 1}
    assert one.name == name
    assert one.problem.source.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    ("small", "said"),
    [
        ('{"COLUMNS": 4}', "sets COLUMNS, which the module assigns nowhere"),
        ('{"torch": 4}', "assigns nowhere"),
        ('{"ROWS": 2 * 2}', r"sets ROWS to `2 \* 2` \(line 7\), which is not a literal"),
        ('{"ROWS": 1_000 + 0x10}', r"`1_000 \+ 0x10` \(line 7\)"),
        ('{"ROWS": __import__("os")}', "not a literal"),
        ('{"WORKLOADS": {}}', "sets WORKLOADS itself"),
        ("{0x4: 4}", r"Workload 'small' of problem p has the key `0x4` \(line 7\); a text was expected"),
        ("{**{}}", r"the key \*\*`{}` \(line 7\)"),
        (r'{"\ud800": 4}', r"the key '\\ud800', half of a pair of surrogates"),
        ("4", r"Workload 'small' of problem p is `4` \(line 7\); a dict that is written out"),
        ('{}, "small": {}', "3 workloads, and 'small' is there twice; 1 to 512 of different names"),
    ],
)
def test_a_malformed_constant_is_a_bad_problem(small, said):
    problem = Problem.from_source(SOURCE.format(small=small, large="{}"), "p")
    with pytest.raises(BadProblemError, match=said):
        workloads_of(problem)


def test_a_constant_that_is_assigned_twice_is_a_bad_problem():
    problem = Problem.from_source(f"{ADD.source}\nROWS = 3\n")
    with pytest.raises(BadProblemError, match="assigns more than once"):
        workloads_of(problem)


def test_only_the_workloads_own_sources_have_a_length_limit():
    long = "x" * (MAX_SOURCE_BYTES // 2)
    workloads = ", ".join(f'"{name}": {{"TEXT": "{long}"}}' for name in "abc")
    source = f'TEXT = ""\n{ADD.source}'.replace('\n    "small"', f'\n{workloads},\n    "small"')
    request = EvaluationRequest.of(source, "class ModelNew: pass")
    assert len(request.problem.source) > MAX_SOURCE_BYTES
    assert list(request.workloads) == ["a", "b", "c", "small", "large"]


def test_times_are_geometric_means():
    found = combined({"a": timed(1.0, 4.0, kernel_share=1.0), "b": timed(4.0, 4.0, kernel_share=0.5)})
    assert (found.status, found.trials) == ("correct", 4)
    assert (found.speedup, found.runtime_ms, found.reference_ms) == pytest.approx((2.0, 2.0, 4.0))
    assert found.speedups == pytest.approx({"eager": 2.0})
    assert found.kernel_share == pytest.approx(0.6)
    assert [one.speedup for one in found.workloads] == [4.0, 1.0]
    assert list(workload_lines(found)) == ["Workload a: correct, 4x (1 ms)", "Workload b: correct, 1x (4 ms)"]
    graph = combined({"a": timed(1.0, 4.0), "b": replace(timed(4.0, 4.0), timing_tier="graph")})
    assert graph.timing_tier == "graph"


@pytest.mark.parametrize("other", [CORRECT, failed("incorrect", error_message="no")])
def test_there_is_no_speedup_unless_every_workload_is_correct_and_timed(other):
    found = combined({"a": timed(1.0, 4.0), "b": other})
    assert (found.speedup, found.runtime_ms, found.speedups, found.timing_tier) == (None, None, {}, "none")


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=6))
def test_the_status_is_that_of_the_worst(statuses):
    verdicts = [CORRECT if one == "correct" else failed(one, error_message=one) for one in statuses]
    found = combined({str(place): one for place, one in enumerate(verdicts)})
    assert found.correct == (set(statuses) == {"correct"})
    wrong = [one for one in statuses if one not in ("correct", "undecided", "invalid")]
    by_rank = [one for one in statuses if one == "invalid"], wrong, [one for one in statuses if one == "undecided"]
    assert found.status == next((ones[0] for ones in by_rank if ones), "correct")
    if not found.correct:
        assert found.error_message == f"Workload {statuses.index(found.status)}: {found.status}"
    assert [one.status for one in found.workloads] == statuses
    assert Verdict.from_record(found.to_record()) == found
    assert VerdictRecord.model_validate(found.to_record()).model_dump()["workloads"][0]["status"] == statuses[0]


def test_evidence_is_gathered_from_all():
    one = replace(CORRECT, flags=("retried",), max_abs_error=0.5, seconds=Seconds(compile=1.0, age=3.0))
    other = replace(CORRECT, flags=("no_fp64", "retried"), isolation_tier="landlock", seconds=Seconds(compile=2.0))
    found = combined({"a": one, "b": other})
    assert found.flags == ("retried", "no_fp64")
    assert (found.max_abs_error, found.isolation_tier, found.seconds.compile, found.seconds.age) == (
        0.5, "landlock", 3.0, 3.0
    )  # fmt: skip
    assert "workloads" not in found.to_row()


@pytest.mark.parametrize("last", [invalid("lost"), failed("timeout")])
def test_nothing_is_judged_after_a_failure_of_the_evaluator_or_a_timeout(last):
    asked = []

    def judge(part):
        asked.append(part)
        return last if part == 2 else CORRECT

    async def judge_async(part):
        return judge(part)

    parts = {"a": 1, "b": 2, "c": 3}
    assert judged_on_each(parts, judge, as_said).status == last.status
    assert asyncio.run(judged_on_each_async(parts, judge_async, as_said)).status == last.status
    assert asked == [1, 2, 1, 2]


def test_a_problem_that_is_refused_names_its_workload():
    def refuse(part):
        raise BadProblemError("It is degenerate.", "Fix it.")

    with pytest.raises(BadProblemError, match=r"Workload a: It is degenerate\."):
        judged_on_each({"a": 1}, refuse, as_said)


def test_a_refused_problem_quotes_the_line_as_its_user_wrote_it(evaluator, add_candidate):
    checked = ADD.source.replace("ROWS = 6\n", "ROWS = 6; assert ROWS != 0x4\n").replace('"ROWS": 4}', '"ROWS": 0x4}')
    with pytest.raises(BadProblemError, match=r"Workload small: .*line 4, in <module>: ROWS = 6; assert ROWS != 0x4\)"):
        evaluator.evaluate(Problem.from_source(checked, "add"), add_candidate, trials=1)


def test_values_are_taken_as_they_are_written():
    written = SOURCE.format(small='{"ROWS": 0x1_0}', large='{"ROWS": (4,\n  5)}')
    small, large = workloads_of(Problem.from_source(written, "p"))
    assert "ROWS = 0x1_0\n" in small.problem.source
    assert "ROWS = (4, 5)\n" in large.problem.source


def test_a_candidate_must_be_correct_on_each(evaluator, add_candidate, server):
    found = evaluator.evaluate(ADD, add_candidate, trials=2)
    assert [(one.name, one.status, one.trials) for one in found.workloads] == [
        ("small", "correct", 2), ("large", "correct", 2)
    ]  # fmt: skip
    assert (found.status, found.trials, found.speedup) == ("correct", 4, None)
    narrow = add_candidate.replace("(triton.cdiv(x.numel(), 256),)", "(2,)")
    found = asyncio.run(evaluator.evaluate_async(ADD, narrow, trials=2))
    assert [one.status for one in found.workloads] == ["correct", "incorrect"]
    assert found.error_message.startswith("Workload large: ")
    with Client(server.url) as client:
        asked = client.evaluate(ADD, narrow, trials=2)
    assert [one.status for one in asked.workloads] == ["correct", "incorrect"]
