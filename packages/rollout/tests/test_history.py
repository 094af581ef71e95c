"""Which earlier attempts a prompt shows, and how much of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.history import Attempt, HistoryConfig, best_of, histories
from warpsmith.rollout.prompts import build_prompt

PROBLEM = ProblemRow("p", "class Model:\n    def forward(self, x):\n        return x\n", 1, "test")
BODY = "\n".join(f"    line_{number} = {number}" for number in range(30))


def wrong(share: float = 0.5, message: str | None = None) -> Verdict:
    return Verdict("incorrect", True, False, mismatched_fraction=share, error_message=message)


def right(speedup: float | None = None) -> Verdict:
    return Verdict("correct", True, True, speedup=speedup)


def broken(message: str) -> Verdict:
    return Verdict("compile_error", False, False, error_message=message)


def attempt(name: str, verdict: Verdict) -> Attempt:
    return Attempt(f"def {name}():\n{BODY}\n", verdict)


def words(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"].split()) for message in messages)


def text(attempts: list[Attempt], **settings: object) -> str:
    history = HistoryConfig(**settings.pop("history", {}))  # type: ignore[arg-type]
    return build_prompt(PROBLEM, attempts, style="full", history=history, **settings)[-1]["content"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "best"),
    [
        ([right(1.5), right(1.2), wrong(0.1)], 0),
        ([right(1.2), right(1.5), broken("x")], 1),
        ([right(), right()], 1),
        ([wrong(0.1), wrong(0.5)], 0),
        ([wrong(0.9), broken("x")], 0),
        ([broken("x"), broken("y")], 1),
        ([right(0.5), wrong(0.0)], 0),
    ],
)
def test_the_best_attempt_is_correct_and_fast_or_else_nearly_right(verdicts: list[Verdict], best: int) -> None:
    assert best_of([attempt("k", verdict) for verdict in verdicts]) == best


def test_with_room_every_kernel_is_whole_and_the_best_is_named() -> None:
    shown = text([attempt("one", wrong()), attempt("two", right(1.5)), attempt("three", wrong())])
    assert "An earlier attempt (turn 1):\n```python\ndef one" in shown
    assert "Your best attempt so far (turn 2):\n```python\ndef two" in shown
    assert "Your last attempt (turn 3):\n```python\ndef three" in shown


def test_a_first_attempt_needs_no_number() -> None:
    assert "Your last attempt:\n```python\ndef one" in text([attempt("one", right(1.5))])


def test_compressed_attempts_are_changes_to_the_best_kernel() -> None:
    tries = [attempt("one", wrong()), attempt("two", right(1.5)), attempt("three", wrong())]
    shown = text(tries, history={"form": "compressed"})
    assert "(turn 1), as changes to the kernel of turn 2:\n```diff\n@@ -1,2 +1,2 @@\n-def two():\n+def one():" in shown
    assert "(turn 3), as changes to the kernel of turn 2:\n```diff" in shown
    assert shown.count("line_29") == 1


def test_a_kernel_unlike_the_best_is_shown_whole() -> None:
    other = Attempt("import triton\n", wrong())
    assert "```python\nimport triton\n```" in text(
        [other, attempt("two", right()), attempt("three", wrong())], history={"form": "compressed"}
    )


def test_an_unchanged_kernel_is_said_to_be_one() -> None:
    tries = [attempt("same", right(1.5)), attempt("same", right(1.4)), attempt("last", wrong())]
    assert "(no change)" in text(tries, history={"form": "compressed"})


def test_one_mistake_at_several_places_is_explained_once() -> None:
    tries = [
        attempt("one", broken("line 12: name 'tx' is not defined")),
        attempt("two", broken("line 7: tl.foo does not exist")),
        attempt("three", broken("line 40: name 'tx' is not defined")),
    ]
    shown = text(tries, history={"form": "compressed"})
    assert "Error: the same as in turn 3" in shown
    assert "line 12" not in shown
    assert "line 7" in shown
    assert "line 40" in shown


def test_the_best_kernel_outlives_later_ones() -> None:
    tries = [attempt("best", right(1.5)), *(attempt(f"wrong_{n}", wrong()) for n in range(6))]
    whole = words(build_prompt(PROBLEM, tries, style="full"))
    empty = words(build_prompt(PROBLEM, style="full"))
    seen = set()
    for budget in range(whole, empty + 40, -20):
        shown = text(tries, count_tokens=words, budget=budget)
        seen.add("def best" in shown)
        assert "def best" in shown or "def wrong_" not in shown
    assert seen == {True, False}, "the smallest budgets hold no kernel"


@pytest.mark.parametrize(("limit", "whole", "brief"), [(None, 5, 0), (120, 0, 1), (0, 0, 0)])
def test_the_other_attempts_have_a_budget_of_their_own(limit: int | None, whole: int, brief: int) -> None:
    tries = [attempt("best", right(1.5)), *(Attempt(f"k{n} " * 50, wrong()) for n in range(5)), attempt("z", wrong())]
    shown = text(tries, count_tokens=words, budget=10_000, history={"earlier_tokens": limit})
    assert "def best" in shown
    assert "(turn 7)" in shown
    assert shown.count("An earlier attempt (turn") >= whole
    assert ("An earlier attempt (turn 2): incorrect 50%" in shown) == bool(brief)


def test_an_attempt_has_a_budget_of_its_own() -> None:
    tries = [attempt("one", right(1.5)), Attempt("x " * 400, wrong(0.5, "y " * 400))]
    shown = text(tries, count_tokens=words, budget=10_000, history={"attempt_tokens": 150})
    assert "def one" in shown
    assert "x x" not in shown
    assert "Wrong elements: 50.00%" in shown


verdicts = st.one_of(
    st.floats(0, 1).map(wrong),
    st.floats(0.1, 9).map(right),
    st.text(max_size=400).map(broken),
    st.just(right()),
)
attempts = st.lists(st.builds(Attempt, st.none() | st.text(max_size=300), verdicts), max_size=7)


@given(attempts, st.sampled_from(["whole", "compressed"]), st.booleans(), st.none() | st.integers(16, 300))
def test_histories_shrink_and_never_lose_the_last_attempt_before_the_others(
    tries: list[Attempt], form: str, diffs: bool, limit: int | None
) -> None:
    config = HistoryConfig(form=form, earlier_tokens=limit, attempt_tokens=limit)  # type: ignore[arg-type]

    def size(shown: list[object]) -> int:
        return len(repr(shown).split())

    found = list(histories(tries, config, diffs=diffs, tokens=size))  # type: ignore[arg-type]
    assert found[-1] == []
    for one in found[:-1]:
        assert one[-1].turn == len(tries)
        turns = [shown.turn for shown in one]
        assert turns == sorted(set(turns))
        for shown in one:
            assert shown.diff_to is None or any(base.turn == shown.diff_to and base.attempt.kernel for base in one)
            assert shown.same_error_as is None or shown.same_error_as in turns


@given(attempts, st.integers(500, 900), st.sampled_from(["full", "compact"]), st.sampled_from(["whole", "compressed"]))
def test_a_prompt_keeps_to_its_budget(tries: list[Attempt], budget: int, style: str, form: str) -> None:
    history = HistoryConfig(form=form)  # type: ignore[arg-type]
    messages = build_prompt(PROBLEM, tries, style=style, history=history, count_tokens=words, budget=budget)  # type: ignore[arg-type]
    assert words(messages) <= budget
