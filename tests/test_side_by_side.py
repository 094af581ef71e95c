"""The benchmark that compares verdicts with KernelBench's: what needs neither a GPU nor KernelBench."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import _side_problems as problems  # noqa: E402
import side_by_side  # noqa: E402

EVALUATOR = """
import os, time
from types import SimpleNamespace
from kernelbench import timing

def eval_kernel_against_ref(problem, candidate, backend, **settings):
    assert settings["num_correct_trials"] == 5 and settings["measure_performance"]
    if candidate == "raises":
        raise ValueError("no such kernel")
    if candidate == "dies":
        print("a last word")
        os._exit(9)
    if candidate == "hangs":
        time.sleep(60)
    if candidate == "no verdict":
        return None
    correct = candidate == "right"
    run = timing.get_timing_function("cuda_event")
    timed = [run(each, [], num_trials=9) for each in [[3.0, 1.0, 2.0]] * correct + [[4.0, 8.0]]]
    means = [sum(each) / len(each) for each in timed]
    return SimpleNamespace(
        compiled=True, correctness=correct, runtime=means[0] if correct else -1.0, ref_runtime=means[-1],
        metadata={"backend": backend} if correct else {"correctness_issue": ValueError("Output mismatch\\nin full")},
    )
"""
TIMING = """
import torch

torch.cuda._sleep = lambda cycles: None

def clear_l2_cache(device=None):
    pass

def get_timing_function(name):
    def run(times, inputs, num_trials):
        plain = clear_l2_cache.__module__ == __name__
        clear_l2_cache(device="cuda")
        return times if plain else [0.5 * min(times)] * num_trials
    return run
"""


@pytest.fixture
def checkout(tmp_path):
    """A stand-in for KernelBench: the evaluator's name, its arguments and its result."""
    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import litellm, openai\nfrom dotenv import load_dotenv\nload_dotenv()\n")
    (package / "eval.py").write_text(EVALUATOR)
    (package / "timing.py").write_text(TIMING)
    return tmp_path


@pytest.fixture
def peer(checkout, tmp_path):
    running = side_by_side.Peer(checkout, tmp_path / "peer.log")
    yield running
    running.close()


def task(candidate, backend="triton"):
    return {"problem": "", "candidate": candidate, "backend": backend, "tf32": False}


@pytest.mark.slow
def test_a_peer_judges_one_after_the_other_and_is_replaced_when_it_dies(peer):
    right = peer.judge(task("right", "cuda"))
    assert right["correct"] and right["notes"] == {"backend": "cuda"}
    assert (right["runtime_ms"], right["runtime_median_ms"]) == (2.0, 2.0)
    assert (right["reference_ms"], right["reference_median_ms"]) == (6.0, 6.0)
    assert (right["runtime_least_ms"], right["runtime_gated_ms"], right["reference_gated_ms"]) == (1.0, 0.5, 2.0)
    wrong = peer.judge(task("wrong"))
    assert not wrong["correct"] and wrong["runtime_ms"] is None and wrong["reference_median_ms"] == 6.0
    assert "Output mismatch" in wrong["notes"]["correctness_issue"]
    assert peer.judge(task("raises"))["error"] == "ValueError: no such kernel"
    assert "no verdict" in peer.judge(task("no verdict"))["error"]
    dead = peer.judge(task("dies"))
    assert not dead["correct"] and dead["error"] == "died" and dead["last_words"][-1] == "a last word"
    assert peer.judge(task("right"))["correct"]
    assert "no verdict within" in peer.judge(task("hangs"), deadline_s=1.0)["error"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = 2 * 3  # both\n", "a = 7  # both\n"),
        ("a = b = 1\n", "a = b = 7\n"),
        ("x, a = 1, 2\n", "x, a = 1, 7\n"),
        ("def f():\n    a = 1\n\n\na=1", "def f():\n    a = 1\n\n\na=7"),
    ],
)
def test_a_constant_is_replaced_where_it_is_assigned(source, expected):
    assert problems.with_constants(source, {"a": 7}) == (expected, frozenset())


def test_a_constant_that_is_not_there_is_named():
    assert problems.with_constants("a = 1\n", {"a": 2, "b": 3}) == ("a = 2\n", frozenset({"b"}))


CONSTANTS = [f"constant_{place}" for place in range(6)]
values = st.integers(-99, 99) | st.tuples(st.integers(1, 9)) | st.text(alphabet="aé ", max_size=3)


@settings(deadline=None)
@given(
    st.permutations(CONSTANTS),
    st.lists(values, min_size=6, max_size=6),
    st.dictionaries(st.sampled_from([*CONSTANTS, "other"]), values),
)
def test_constants_get_their_values_and_others_keep_theirs(order, first, changes):
    a, b, c, d, e, f = order
    source = (
        f"{a} = {first[0]!r}  # é\n{b}, {c} = {first[1]!r}, {first[2]!r}\n"
        f"def function():\n    other = {d} = 0\n{d} = {first[3]!r}; {e} = {f} = {first[4]!r}\n"
    )
    changed, unknown = problems.with_constants(source, changes)
    before, after = {}, {}
    exec(source, before)
    exec(changed, after)
    assert unknown == changes.keys() & {"other"}
    for name in (a, b, c, d):
        assert after[name] == changes.get(name, before[name])
    # Names of one value have one value.
    assert after[e] == after[f] == changes.get(e, changes.get(f, before[e]))


def test_each_problem_has_a_solution_in_each_language_and_a_small_size():
    every = problems.solutions()
    by_language = {
        language: {(one.level, one.number) for one in every if one.language == language}
        for language in problems.LANGUAGES
    }
    assert by_language["triton"] == by_language["cuda"] == problems.SMALL.keys()
    assert problems.CUT.keys() <= problems.SMALL.keys()
    assert all(sum(level == wanted for level, _ in by_language["cuda"]) >= 20 for wanted in (1, 2))
    # A run that is cut off has judged some of each level.
    assert {one.level for one in every[:2]} == {1, 2}
    assert [one.key for one in problems.solutions(("cuda",), frozenset({(2, 9)}))] == ["cuda/2/9"]


def row(ours, theirs, times=(1.0, 2.0), theirs_times=(1.01, 2.1), **notes):
    status = "correct" if ours is True else ours or "incorrect"
    return {
        "warpsmith": {
            "status": status, "correct": ours is True, "message": "why\nmore",
            "runtime_ms": times[0], "reference_ms": times[1],
        },
        "kernelbench": {
            "correct": theirs, "runtime_median_ms": theirs_times[0], "reference_median_ms": theirs_times[1],
            "runtime_gated_ms": 1.0,
            "notes": notes,
        },
    }  # fmt: skip


def test_the_report_counts_agreement_names_disagreements_and_compares_times():
    rows = {
        "triton/1/1": row(True, True),
        "triton/1/2": row(False, True),
        "triton/1/3": row(True, False, correctness_issue="Output mismatch", max_difference=["0.5"]),
        "cuda/1/1": row(False, False),
        "cuda/1/2": row("undecided", True),
        "cuda/1/3": {"warpsmith": {"status": "correct", "correct": True}},
    }
    report = side_by_side.report({"solutions": rows})
    assert "| triton | 3 | 1 | 0 | 1 | 1 | 0 |" in report
    assert "| cuda | 3 | 0 | 1 | 0 | 0 | 2 |" in report
    assert "- `triton/1/2`: ours: incorrect: why; KernelBench's: correct\n" in report
    assert "KernelBench's: not correct Output mismatch; ['0.5']" in report
    assert "- Times of candidates: 1 of 1 within 2%." in report
    assert "- Times of references: 0 of 1 within 2%." in report
    assert "- Times of references behind a gate: 0 of 0 within 2%." in report
    cells = "1.0000 | 1.0100 | 0.9901 | 1.0000 | 1.0000 | 2.0000 | 2.1000 | 0.9524 | - | -"
    assert f"| `triton/1/1` | {cells} |" in report


def test_a_row_is_judged_again_if_its_solution_changed(tmp_path):
    path, settings = tmp_path / "found.json", {"sizes": "cut"}
    solution = problems.solutions(("cuda",), frozenset({(2, 9)}))[0]
    problem = problems.Problem.from_source(
        "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
    )
    sheet = side_by_side.Sheet(path, settings)
    sheet.row(solution, problem, "a")["warpsmith"] = {"status": "correct"}
    sheet.write()
    again = side_by_side.Sheet(path, settings)
    assert again.row(solution, problem, "a")["warpsmith"] == {"status": "correct"}
    assert "warpsmith" not in again.row(solution, problem, "b")
    with pytest.raises(SystemExit, match="sizes 'cut', not 'full'"):
        side_by_side.Sheet(path, {"sizes": "full"})


RELU = """
import torch
batch_size, dim = 4096, 8


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(batch_size, dim)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_a_run_that_is_out_of_time_continues_where_it_ended(checkout, peer, monkeypatch, capsys):
    folder = checkout / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "19_ReLU.py").write_text(RELU)
    out = checkout / "found.json"
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(checkout))
    given = [str(checkout), "--sizes", "small", "--device", "cpu", "--languages", "triton", "--problems", "1/19"]
    monkeypatch.setattr(sys, "argv", ["side_by_side.py", *given, "--out", str(out), "--seconds", "0"])
    side_by_side.main()
    assert "1 of 1 solutions left" in capsys.readouterr().out
    arguments = Namespace(
        kernelbench=checkout, sizes="small", device="cpu", tf32=False, seconds=600.0, builds=0, slots=2
    )
    every = problems.solutions(("triton",), frozenset({(1, 19)}))
    sheet = side_by_side.Sheet(out, side_by_side.settings_of(arguments))
    assert side_by_side.judge_all(arguments, sheet, every, peer) == 0
    found = json.loads(out.read_text())["solutions"]["triton/1/19"]
    assert found["warpsmith"]["status"] == "correct", found
    # The stand-in calls another text right.
    assert side_by_side.agreement(found) == "only ours"
    assert side_by_side.judge_all(arguments, sheet, every, None) == 0


def test_a_build_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    (tmp_path / "wrong.py").write_text("import sys\nsys.exit('no such header')\n")
    (tmp_path / "right.py").write_text("")
    wrong, right = (problems.Solution("cuda", 1, n, tmp_path / name) for n, name in enumerate(("wrong.py", "right.py")))
    builds = side_by_side.Builds([wrong, right], processes=2)
    assert "no such header" in builds.wait_for(wrong)["build_error"]
    assert builds.wait_for(right).keys() == {"build_seconds"}
    builds.close()
    assert side_by_side.Builds([wrong], processes=0).wait_for(wrong) == {}
