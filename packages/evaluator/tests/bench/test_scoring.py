"""What verdicts amount to: fast_p against tables made by hand, pass@k against counting every choice."""

import io
import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from warpsmith.evaluator import Problem
from warpsmith.evaluator.baselines import BaselineNote
from warpsmith.evaluator.bench.baseline import read_baseline
from warpsmith.evaluator.bench.generations import Generation
from warpsmith.evaluator.bench.printing import print_scores
from warpsmith.evaluator.bench.scores import geometric_mean, pass_at_k
from warpsmith.evaluator.bench.scoring import Answer, answers_of, score
from warpsmith.evaluator.bench.verdict_log import Outcome, Refusal
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError

SOURCE = "class Model: pass\ndef get_inputs(): return []\n"


def problem(number, level=1):
    return Problem(f"{number}_P", SOURCE, level, "", number)


def right(speedup=None, runtime_ms=1.0, **others):
    if speedup is None:
        return Verdict("correct", True, True)
    times = {"runtime_ms": runtime_ms, "reference_ms": runtime_ms * speedup} | others
    return Verdict("correct", True, True, speedup=speedup, timing_tier="two_clocks", device="GPU", **times)


def wrong(device="cpu"):
    return Verdict("incorrect", True, False, device=device)


def answer(number, found, sample=0, level=1, baseline_ms=None):
    """`found` is a verdict, a refusal, or None for a missing generation."""
    outcome = None
    if isinstance(found, Verdict):
        outcome = Outcome("k", verdict=found)
    elif found is not None:
        outcome = Outcome("k", refusal=found)
    return Answer(problem(number, level), sample, None, outcome, baseline_ms)


def test_fast_p_is_strict_and_over_failures_too():
    """Ten problems: 1.0x and 2.0x exactly are not above 1 and 2; three failures count."""
    verdicts = [right(s) for s in (0.4, 0.5, 0.79, 1.0, 1.2, 2.0, 2.5)] + [wrong("GPU")] * 2 + [None]
    (found,) = score([answer(number, verdict) for number, verdict in enumerate(verdicts)])
    assert found.speed.fast_p == {0.0: 0.7, 0.5: 0.5, 0.8: 0.4, 1.0: 0.3, 1.5: 0.2, 2.0: 0.1}
    assert (found.speed.n, found.speed.over, found.speed.untimed) == (10, 7, 0)
    assert found.speed.geometric_mean == pytest.approx(math.prod([0.4, 0.5, 0.79, 1.0, 1.2, 2.0, 2.5]) ** (1 / 7))
    assert (found.problems, found.compiled, found.correct, found.missing) == (10, 9, 7, 1)


def test_samples_are_those_of_a_level_and_of_its_problems():
    """Level 1 has samples 0 and 1, level 2 sample 5, level 3 none; sample 9 is of no problem."""
    places = [(1, 1, 0), (1, 2, 1), (2, 1, 5), (1, 99, 9)]
    generations = [Generation(level, number, sample, None) for level, number, sample in places]
    problems = [problem(1), problem(2), problem(1, 2), problem(1, 3)]
    found = answers_of(problems, generations, lambda _problem, _generation: Outcome("k", verdict=right()))
    assert [(one.problem.level, one.problem.number, one.sample, one.state) for one in found] == [
        *((1, 1, 0, "judged"), (1, 1, 1, "missing"), (1, 2, 0, "missing"), (1, 2, 1, "judged")),
        *((2, 1, 5, "judged"), (3, 1, 0, "missing")),
    ]


def test_missing_generations_may_be_left_out():
    answers = [answer(1, right(2.0)), answer(2, None)]
    (strict,), (lenient,) = score(answers), score(answers, missing_fail=False)
    assert (strict.speed.fast_p[1.0], strict.pass_at[1], strict.counted) == (0.5, 0.5, 2)
    assert (lenient.speed.fast_p[1.0], lenient.pass_at[1], lenient.counted) == (1.0, 1.0, 1)
    assert strict.missing == lenient.missing == 1


def test_what_the_evaluator_could_not_judge_is_no_score():
    refusal = Refusal("degenerate", "change it")
    answers = [answer(1, right(2.0)), answer(2, invalid("lost")), answer(3, refusal), answer(3, None, sample=1)]
    (found,) = score(answers)
    assert (found.counted, found.invalid, found.refused, found.missing) == (1, 1, 1, 1)
    assert (found.correct_rate, found.speed.fast_p[1.0], found.speed.n) == (1.0, 1.0, 1)


def test_on_a_cpu_times_are_absent_and_not_zero():
    (found,) = score([answer(1, right()), answer(2, wrong())])
    assert found.speed is None
    assert found.correct_rate == 0.5
    (none_right,) = score([answer(1, wrong())])
    assert none_right.speed is None
    (on_gpu,) = score([answer(1, wrong("GPU"))])
    assert on_gpu.speed.fast_p == dict.fromkeys(on_gpu.speed.fast_p, 0.0)
    assert on_gpu.speed.geometric_mean is None


def test_a_correct_answer_without_a_time_is_no_faster_than_another():
    (found,) = score([answer(1, right(2.0)), answer(2, right())])
    assert (found.speed.fast_p[0.0], found.speed.fast_p[0.5], found.speed.untimed, found.speed.over) == (1.0, 0.5, 1, 1)


def test_each_problem_has_the_same_weight():
    """Problem 1 has one answer left of two, and it is right; of problem 2 neither is."""
    answers = [answer(1, right(2.0)), answer(1, invalid("x"), 1), answer(2, wrong("GPU")), answer(2, wrong("GPU"), 1)]
    (found,) = score(answers)
    assert (found.correct_rate, found.speed.fast_p[1.0], found.pass_at[1]) == (0.5, 0.5, 0.5)
    assert (found.pass_at[2], found.pass_over) == (0.0, {1: 2, 2: 1})


def test_levels_and_all_of_them():
    scores = score([answer(1, right()), answer(1, wrong(), level=2), answer(2, None, level=2)])
    assert [(found.level, found.problems, found.correct_rate) for found in scores] == [
        (1, 1, 1.0),
        (2, 2, 0.0),
        (None, 3, pytest.approx(1 / 3)),
    ]
    assert json.dumps([found.to_json() for found in scores])


def test_every_problem_has_every_sample_of_the_run(tmp_path):
    generations = [Generation(1, 1, 0, tmp_path / "a"), Generation(1, 1, 3, tmp_path / "b")]
    outcome = Outcome("k", verdict=right())
    answers = answers_of([problem(1), problem(2)], generations, lambda problem, generation: outcome)
    assert [(one.problem.number, one.sample, one.state) for one in answers] == [
        *((1, 0, "judged"), (1, 3, "judged")),
        *((2, 0, "missing"), (2, 3, "missing")),
    ]


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(case):
    n, c, k = case
    choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=6))
def test_pass_at_k_of_a_run(problems):
    answers = [
        answer(number, right() if solved else wrong(), sample)
        for number, samples in enumerate(problems)
        for sample, solved in enumerate(samples)
    ]
    (found,) = score(answers)
    for k in range(1, max(map(len, problems)) + 1):
        enough = [samples for samples in problems if len(samples) >= k]
        shares = [sum(map(any, chosen)) / len(chosen) for chosen in (_choices(samples, k) for samples in enough)]
        assert (found.pass_at[k], found.pass_over[k]) == (pytest.approx(sum(shares) / len(shares)), len(enough))
    assert found.pass_at[1] == pytest.approx(found.correct_rate)
    assert set(found.pass_at) == set(range(1, max(map(len, problems)) + 1))


def _choices(samples, k):
    return list(itertools.combinations(samples, k))


def test_pass_at_more_than_there_are_is_refused():
    with pytest.raises(UsageError, match="pass@3 needs 3 samples; there are 2"):
        pass_at_k(2, 1, 3)
    assert geometric_mean([]) is None
    assert geometric_mean([0.5, 8.0]) == pytest.approx(2.0)


def test_a_stored_baseline_is_scored_apart_and_over_the_problems_it_has():
    answers = [
        answer(1, right(2.0, runtime_ms=2.0), baseline_ms=3.0),
        answer(2, right(0.5, runtime_ms=2.0), baseline_ms=1.0),
        answer(3, right(9.0)),
        answer(4, wrong("GPU"), baseline_ms=1.0),
    ]
    (found,) = score(answers, baseline=True)
    assert found.baseline_speed.fast_p == {
        **{0.0: pytest.approx(2 / 3), 0.5: pytest.approx(1 / 3), 0.8: pytest.approx(1 / 3)},
        **{1.0: pytest.approx(1 / 3), 1.5: 0.0, 2.0: 0.0},
    }
    assert (found.baseline_speed.n, found.baseline_speed.over) == (3, 2)
    assert found.baseline_speed.geometric_mean == pytest.approx(math.sqrt(1.5 * 0.5))
    assert found.speed.n == 4
    (without,) = score(answers)
    assert without.baseline_speed is None


def test_each_baseline_is_scored_over_the_problems_whose_reference_has_it():
    note = BaselineNote("compile", "not_compiled", "no")
    answers = [
        answer(1, right(2.0, speedups={"eager": 2.0, "compile": 1.2})),
        answer(2, right(3.0, speedups={"eager": 3.0}, baseline_notes=(note,))),
        answer(3, wrong("GPU")),
    ]
    (found,) = score(answers)
    assert found.speed_over["eager"].fast_p[1.0] == pytest.approx(2 / 3)
    assert (found.speed_over["compile"].n, found.speed_over["compile"].fast_p[1.0]) == (2, pytest.approx(1 / 2))
    printed = io.StringIO()
    print_scores(Console(file=printed, width=120), [found])
    assert "speedup over torch.compile (compile)" in printed.getvalue()


def test_eighty_columns_hold_every_figure():
    answers = [answer(n, right(n / 40), s, baseline_ms=1.2) for n in range(1, 101) for s in range(10)]
    printed = io.StringIO()
    console = Console(file=printed, width=80, soft_wrap=True)
    print_scores(console, score([*answers, answer(1, right(), level=2)], baseline=True), "h100.json")
    assert "\u2026" not in printed.getvalue()
    assert "1 1000 100.0 %" in printed.getvalue()
    assert "absent, not zero" in printed.getvalue()
    assert "STORED baseline h100.json" in printed.getvalue()


def test_a_baseline_is_found_by_name_and_by_number(tmp_path):
    path = tmp_path / "baseline.json"
    rows = {"1_P.py": {"mean": 1.5, "std": 0.1}, "2_Other.py": {"mean": 2}, "3_P.py": None, "43_P.py": {"mean": 9}}
    path.write_text(json.dumps({"level1": rows, "hardware": "H100"}))
    found = read_baseline(path)
    assert [found.mean_ms(problem(number)) for number in (1, 2, 3, 4)] == [1.5, 2.0, None, None]
    assert found.mean_ms(problem(1, level=2)) is None
    assert found.mean_ms(Problem("P", SOURCE, 1, "", 1)) == 1.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "no key level1"),
        ('{"level1": []}', "level1 is not an object"),
        ('{"level1": {"1_P.py": {"mean": 0}}}', "level1/1_P.py has no `mean` above 0"),
        ('{"level1": {"1_P.py": {"mean": NaN}}}', "level1/1_P.py"),
        ('{"level1": {"1_P.py": 3}}', "level1/1_P.py"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text, says):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        read_baseline(path)
    assert "mean" in caught.value.remedy
    with pytest.raises(UsageError, match=r"The baseline .* does not exist"):
        read_baseline(tmp_path / "none.json")
