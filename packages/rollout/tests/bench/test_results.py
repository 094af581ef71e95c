"""Scores against counting by hand, comparisons, the leaderboard, and the command."""

import itertools
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_answers import answer
from scripted_endpoint import Endpoint, serving
from typer.testing import CliRunner

from warpsmith.evaluator.bench.scores import pass_at_k
from warpsmith.records.errors import UsageError
from warpsmith.rollout.bench import runner
from warpsmith.rollout.bench.comparison import compare_results, lines_of
from warpsmith.rollout.bench.errors import ResultError
from warpsmith.rollout.bench.leaderboard import boards_of, render
from warpsmith.rollout.bench.results import read_result, write_result
from warpsmith.rollout.cli import app
from warpsmith.rollout.datasets import write_directory


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(correct, data):
    k = data.draw(st.integers(1, len(correct)))
    subsets = list(itertools.combinations(correct, k))
    assert pass_at_k(len(correct), sum(correct), k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.fixture
def result_of(bench, settings_for, tmp_path):
    """Returns the result of a bench whose model says these words in turn."""
    counter = itertools.count()

    def make(words, chosen=None, **given):
        given.setdefault("endpoint", {"in_flight": 1})
        with serving(Endpoint(lambda body, number: answer(words[number % len(words)], number))) as server:
            output = tmp_path / f"run-{next(counter)}"
            bench.run(settings_for(server, **given), chosen=chosen, output=output)
        write_result(output, bench.result())
        return read_result(output)

    return make


def test_a_level_is_scored_as_counted_by_hand(result_of, problems):
    words = ["fast 2.0", "wrong", "fast 0.5", "wrong", "wrong", "wrong", "fast 1.6", "fast 1.2", "broken"]
    total = result_of(words, samples=3)["scores"][-1]
    # Correct are 2, 0 and 2 of 3 samples of the three problems.
    assert total["pass_at"] == pytest.approx({"1": 4 / 9, "2": 2 / 3, "3": 2 / 3})
    assert total["correct_rate"] == pytest.approx(4 / 9)
    eager, compiled = total["speed_over"]["eager"], total["speed_over"]["compile"]
    assert eager["fast_p"] == pytest.approx(
        {"0.0": 4 / 9, "0.5": 3 / 9, "0.8": 3 / 9, "1.0": 3 / 9, "1.5": 2 / 9, "2.0": 0}
    )
    assert compiled["fast_p"]["0.8"] == 0.0 + 1 / 9
    assert eager["geometric_mean"] == pytest.approx((2.0 * 0.5 * 1.6 * 1.2) ** 0.25)


def test_two_results_are_compared_problem_by_problem(result_of):
    slow = result_of(["fast 1.1", "wrong", "fast 0.9"])
    fast = result_of(["fast 2.2", "fast 1.4", "fast 1.8"], strategy={"type": "best_of_n", "attempts": 1})
    found = compare_results(slow, fast)
    assert found.differs["strategy.type"] == ("single", "best_of_n")
    solved = found.measures["solved"]
    assert (solved.problems, solved.first, solved.second) == (3, pytest.approx(2 / 3), 1.0)
    assert solved.low <= solved.difference <= solved.high
    assert found.measures["fast_1"].difference == pytest.approx(2 / 3)
    assert found.measures["log_speedup"].difference == pytest.approx(math.log(2)) and (
        found.measures["log_speedup"].problems == 2
    )
    lines = lines_of(found)
    assert any(line.startswith("speedup of both (geometric mean, 2 problems)") and "ratio 2 " in line for line in lines)
    same = compare_results(slow, slow)
    assert same.measures["solved"].difference == same.measures["solved"].low == same.measures["solved"].high == 0


def test_results_that_cannot_be_compared_are_refused_with_the_reason(result_of, problems):
    one = result_of(["fast 1.1"])
    with pytest.raises(ResultError, match=rf"different problems \(3 and 2\): {problems[2].name}"):
        compare_results(one, result_of(["fast 1.1"], chosen=problems[:2]))
    warm = result_of(["fast 1.1"], sampling={"max_tokens": 100, "temperature": 0.5})
    with pytest.raises(ResultError, match=r"temperature \(1\.0 and 0\.5\).*--differing sampling\.temperature"):
        compare_results(one, warm)
    assert compare_results(one, warm, differing_too=["sampling"]).differs == {"sampling.temperature": (1.0, 0.5)}
    judged = result_of(["fast 1.1"], evaluator={"trials": 9})
    with pytest.raises(ResultError, match=r"judging\.trials \(6 and 9\)"):
        compare_results(one, judged)
    with pytest.raises(ResultError, match="timed on different devices: H and A"):
        compare_results(one, one | {"devices": ["A"]})
    lost = json.loads(json.dumps(one))
    lost["searches"][1] |= {"scored": False, "ended": "lost"}
    with pytest.raises(ResultError, match=rf"second result has 1 searches without a score: {problems[1].name}"):
        compare_results(one, lost)


def test_what_was_not_timed_has_no_speed_to_compare(result_of):
    one, other = result_of(["correct"]), result_of(["wrong"], strategy={"type": "refine", "attempts": 2})
    found = compare_results(one, other)
    assert list(found.measures) == ["solved"]
    assert "Nothing was timed: there is no comparison of speed." in lines_of(found)


def test_the_leaderboard_has_a_table_for_each_set_of_comparable_results(result_of, problems):
    slow, fast = result_of(["fast 1.1"]), result_of(["fast 3.0"], strategy={"type": "refine", "attempts": 2})
    other = result_of(["correct"], chosen=problems[:1])
    evil = fast | {"model": "<script>alert(1)</script>"}
    boards = boards_of([slow, evil, other])
    assert [[row["strategy"] for row in board.rows] for board in boards] == [["refine", "single"], ["single"]]
    assert [board.timed for board in boards] == [True, False]
    page = render([slow, evil, other])
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert page.count("<table") == 2 and "absent, not zero" in page
    assert "fast_2 compile" in page and "100.0 %" in page
    # Nothing is loaded from elsewhere.
    assert not re.search(r"(?:src|href)=|url\(|@import", page)


def test_a_file_that_is_no_result_is_refused(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(ResultError, match="not a result of a bench"):
        read_result(tmp_path)
    with pytest.raises(ResultError, match="does not exist"):
        read_result(tmp_path / "none.json")


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def scripted(monkeypatch, scripted_judge):
    from contextlib import contextmanager

    from scripted_answers import verdict_of

    @contextmanager
    def opened(*_, **__):
        yield scripted_judge(verdict_of)

    monkeypatch.setattr(runner, "open_evaluator", opened)


@pytest.mark.usefixtures("scripted")
def test_the_command_searches_compares_and_ranks(tmp_path):
    words = ["wrong", "correct"]
    with serving(Endpoint(lambda body, number: answer(words[number % 2], number))) as server:
        common = ["--model", "tiny", "--base-url", server.url, "--count", 2, "--isolation", "none", "--in-flight", 1]
        first = invoke(*common, "-o", tmp_path / "a", "--samples", 2, "--price-input", 1, "--price-output", 2)
        second = invoke(
            *common, "-o", tmp_path / "b", "--samples", 2, "--strategy", "refine", "--attempts", 3, "--json"
        )
    assert first.exit_code == second.exit_code == 0
    assert "Nothing was timed" in first.stdout and "pass@2" in first.stdout and "cost: " in first.stdout
    assert json.loads(second.stdout)["scores"][-1]["correct_rate"] == 1.0
    printed = invoke("compare", tmp_path / "a", tmp_path / "b").stdout
    assert "solved, 2 problems: 50.0% -> 100.0%" in printed
    found = json.loads(invoke("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert found["measures"]["solved"]["second"] == 1.0
    page = tmp_path / "board.html"
    assert invoke("leaderboard", tmp_path / "a", tmp_path / "b", "-o", page).exit_code == 0
    assert page.read_text().count("<tr>") == 3


@pytest.mark.usefixtures("scripted")
def test_answers_in_another_language_fail_and_are_counted(tmp_path):
    with serving(Endpoint(lambda body, number: answer("foreign"))) as server:
        done = invoke("--model", "tiny", "--base-url", server.url, "--count", 1, "--isolation", "none", "-o", tmp_path)
    assert "in another kernel language than the one asked for (triton): 1 answer, counted as failures" in done.stdout
    assert "evaluator.language=NAME" in done.stdout
    assert "compile_error after 1 attempt, " in done.stderr
    assert "The candidate is written in CUDA C++" in done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["spent"]["other_language"], result["scores"][0]["correct_rate"]) == (1, 0.0)


@pytest.mark.usefixtures("scripted")
def test_problems_of_a_kernelbench_directory_are_searched(tmp_path, problems):
    write_directory(problems, tmp_path / "problems")
    with serving(Endpoint(lambda body, number: answer("correct"))) as server:
        done = invoke(
            "--model", "tiny", "--base-url", server.url, "-o", tmp_path / "run", "--isolation", "none", "--json",
            "--problems", tmp_path / "problems", "--levels", "1,2",
        )  # fmt: skip
    searches = json.loads(done.stdout)["searches"]
    assert [search["level"] for search in searches] == [1, 2] and all(search["correct"] for search in searches)
    # KernelBench asks for kernels beside library operators.
    assert "Beside them PyTorch may" in server.prompts[0]


@pytest.mark.usefixtures("scripted")
def test_a_lost_search_makes_the_exit_code_3(tmp_path):
    from scripted_endpoint import Broken

    with serving(Endpoint(lambda body, number: Broken() if number == 0 else answer("wrong"))) as server:
        common = ["--model", "tiny", "--base-url", server.url, "--count", 2, "--isolation", "none", "--in-flight", 1]
        common += ["-o", tmp_path / "a", "--set", "endpoint.retries=0"]
        lost = invoke(*common)
        assert lost.exit_code == 3 and "run the same command again (1):" in lost.stdout
        assert invoke(*common).exit_code == 0
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "needs --model, --base-url, --output"),
        (["--strategy", "evolv"], "evolve"),
        (["--attempts", 3], "attempts"),
        (["--strategy", "refine", "--mutations", "x.toml"], "mutations"),
        (["--strategy", "evolve", "--mutations", "none.toml"], "does not exist"),
        (["--size", "gpu"], "too large for the interpreter"),
        (["--tokens", 10], "does not allow one answer"),
        (["--set", "endpoint.idle=3"], "unknown key `idle`"),
        (["--count", 1], "Nothing answers at"),
    ],
)
def test_bad_input_is_a_typed_error_and_leaves_nothing(tmp_path, arguments, part):
    common = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "-o", tmp_path / "run"] if arguments else []
    with pytest.raises(UsageError, match=part):
        invoke(*common, *arguments, *(["--set", "endpoint.backoff_s=0.01"] if arguments else []))
    assert not (tmp_path / "run").exists()


def test_the_schema_lists_every_setting():
    assert "[endpoint]" in invoke("schema").stdout
    assert json.loads(invoke("schema", "--json").stdout)["properties"]["samples"]["default"] == 1
