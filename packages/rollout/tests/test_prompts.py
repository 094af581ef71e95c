"""Prompts of a turn, their feedback, and how history fits a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.baselines import BaselineNote
from warpsmith.evaluator.figures import Bound, KernelFigures
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.errors import PromptTooLongError
from warpsmith.rollout.feedback_config import FeedbackConfig
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.prompts import build_prompt, compact_feedback, essential_lines, feedback

SOURCE = '''\
import torch
import torch.nn as nn


class Model(nn.Module):
    """A doc."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        """Says what it does."""
        x = torch.exp(x)
        return x


def get_inputs():
    return [torch.rand(4)]


def get_init_inputs():
    return []
'''
PROBLEM = ProblemRow("p", SOURCE, 1, "test")
WRONG = Verdict("incorrect", True, False, max_abs_error=1.5, mismatched_fraction=0.25, error_message="at [3]: 2 != 1")


def words(messages):
    return sum(len(m["content"].split()) for m in messages)


def attempt(name, verdict=WRONG):
    return Attempt(f"class ModelNew: name = '{name}'", verdict)


def test_the_full_prompt_states_the_rules_and_the_problem():
    system, user = build_prompt(PROBLEM, style="full")
    assert (system["role"], user["role"]) == ("system", "user")
    assert SOURCE.strip() in user["content"]
    for rule in ("ModelNew", "computed again in every call", "```python", "rejected", "input_precision"):
        assert rule in user["content"]


@pytest.mark.parametrize(
    ("policy", "stated"),
    [
        ("none", "any other PyTorch operation in `forward` is rejected"),
        ("library", "compute convolutions, matrix products, attention"),
        ("any", "PyTorch may compute the rest, but without random numbers"),
    ],
)
def test_the_prompt_states_the_policy_of_operators(policy, stated):
    prompts = {
        one: build_prompt(PROBLEM, style="full", operators=one)[1]["content"] for one in ("none", "library", "any")
    }
    assert stated in prompts.pop(policy)
    assert not any(stated in other for other in prompts.values())
    (compact,) = build_prompt(PROBLEM, style="compact", operators=policy)
    assert compact["content"].startswith("def forward" if policy == "none" else f"# operators: {policy}\n")


def test_the_policy_is_that_of_the_setting_or_else_of_the_problem():
    generated = ProblemRow("g", SOURCE, 1, "generated/train")
    assert [RolloutConfig().operators_for(one) for one in (PROBLEM, generated)] == ["library", "none"]
    assert RolloutConfig(operators="any").operators_for(generated) == "any"


def test_feedback_names_library_operators_and_the_share_of_the_kernels():
    verdict = Verdict("correct", True, True, operators=("aten.linear",), kernel_share=0.25, speedup=1.0)
    text = feedback(Attempt("class ModelNew: ...", verdict))
    assert "Library operators: aten.linear" in text
    assert "in your kernels: 25%" in text


FIGURES = Verdict(
    "correct", True, True, speedup=1.5, runtime_ms=0.2, reference_ms=0.3, baseline="compile",
    speedups={"compile": 1.5, "eager": 3.0}, references_ms={"compile": 0.3, "eager": 0.6},
    baseline_notes=(BaselineNote("compile_max_autotune", "timeout", "it gave no answer"),),
    bound=Bound(1 << 20, 2_000_000_000, 0.1, 0.02, 0.1, "memory"),
    kernels=(KernelFigures("softmax", 2, (64, 1, 1), 128, 40, 16, 0, 2048, 0.5),),
)  # fmt: skip


def test_feedback_tells_how_far_a_kernel_is_from_the_bound_and_what_its_kernels_use():
    text = feedback(Attempt("code", FIGURES))
    for part in (
        "Speedup over torch.compile: 1.50x",
        "Speedup over PyTorch: 3x (0.6 ms)",
        "No speedup over torch.compile with tuning (timeout): it gave no answer",
        "1 MiB to move, 2 G floating-point operations",
        "Least time on this device: 0.1 ms, for moving its bytes",
        "Share of that bound reached: 50%",
        "Kernel softmax x2: 64 x 1 x 1 blocks of 128 threads, 40 registers, 16 bytes spilled per thread, "
        "2 KiB shared memory, occupancy 50%",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("switch", "gone"), [("bound", "Least time"), ("kernels", "Kernel softmax"), ("baselines", "over PyTorch")]
)
def test_each_kind_of_figure_can_be_switched_off(switch, gone):
    tried = [Attempt("code", FIGURES)]
    shown = build_prompt(PROBLEM, tried, style="full")[-1]["content"]
    hidden = build_prompt(PROBLEM, tried, style="full", figures=FeedbackConfig(**{switch: False}))[-1]["content"]
    assert gone in shown and gone not in hidden


def test_the_compact_prompt_is_the_forward_method():
    (user,) = build_prompt(PROBLEM, style="compact")
    assert user["content"] == "def forward(self, x):\n    x = torch.exp(x)\n    return x"


def test_essential_lines_keep_a_constructor_that_does_something_and_helpers():
    source = SOURCE.replace("super().__init__()", "super().__init__()\n        self.w = nn.Parameter(torch.ones(3))")
    source += "\n\ndef helper(x):\n    return x + 1\n"
    lines = essential_lines(source)
    assert "nn.Parameter" in lines
    assert "def helper" in lines
    assert "get_inputs" not in lines


def test_essential_lines_begin_with_the_sizes_that_the_module_names():
    source = SOURCE.replace("class Model", "ROWS = 4096\nSCALE = 0.5\nNAME = 'x'\n\n\nclass Model")
    assert essential_lines(source).splitlines()[:2] == ["ROWS = 4096", "def forward(self, x):"]


@pytest.mark.parametrize("source", ["def broken(", "x = 1"])
def test_essential_lines_of_what_is_no_problem_are_the_source(source):
    assert essential_lines(source) == source


@pytest.mark.parametrize(
    ("verdict", "parts"),
    [
        (WRONG, ["Compiled: yes", "Correct: no (incorrect)", "25.00%", "1.5", "at [3]: 2 != 1"]),
        (Verdict("correct", True, True, speedup=0.8, runtime_ms=5.23), ["Correct: yes", "5.23 ms", "0.80x"]),
        (Verdict("compile_error", False, False, error_message="bad syntax"), ["Compiled: no", "bad syntax"]),
        (Verdict("rejected", True, False, flags=("torch_fallback",)), ["no (rejected)", "torch_fallback"]),
    ],
)
def test_feedback_says_what_the_evaluator_found(verdict, parts):
    text = feedback(Attempt("code", verdict))
    for part in parts:
        assert part in text


def test_feedback_on_an_answer_without_code_says_so():
    assert "No code" in feedback(Attempt(None, Verdict("compile_error", False, False)))


@pytest.mark.parametrize(
    ("verdict", "words_"),
    [
        (WRONG, "incorrect 25%"),
        (Verdict("correct", True, True, speedup=1.25), "correct 1.2x"),
        (Verdict("correct", True, True), "correct"),
        (Verdict("compile_error", False, False, error_message="line one\nline two"), "compile error: line one"),
        (Verdict("runtime_error", True, False, error_message=" \n "), "runtime error"),
    ],
)
def test_compact_feedback_is_a_few_words(verdict, words_):
    assert compact_feedback(verdict) == words_


@pytest.mark.parametrize("style", ["full", "compact"])
def test_the_prompt_of_a_later_turn_carries_kernels_and_verdicts_in_order(style):
    text = build_prompt(PROBLEM, [attempt("first"), attempt("second")], style=style)[-1]["content"]
    assert text.index("'first'") < text.index("'second'")
    assert "torch.exp" in text


def test_control_tokens_in_what_a_model_wrote_are_broken():
    tries = [Attempt("<|im_end|>", Verdict("runtime_error", True, False, error_message="<|im_start|>"))]
    text = build_prompt(PROBLEM, tries, style="full", inert=lambda t: t.replace("<|", "< |"))[-1]["content"]
    assert "<|" not in text
    assert "< |im_end|>" in text
    assert "< |im_start|>" in text


@given(st.integers(20, 400), st.integers(0, 6))
def test_a_prompt_never_exceeds_its_budget_and_keeps_the_newest(budget, count):
    problem = ProblemRow("p", SOURCE, 1, "test")
    tries = [attempt(str(i)) for i in range(count)]
    (message,) = build_prompt(problem, tries, style="compact", count_tokens=words, budget=budget)
    assert words([message]) <= budget
    kept = [i for i in range(count) if f"'{i}'" in message["content"]]
    assert kept == list(range(count))[count - len(kept) :]


def test_a_long_message_is_cut_before_the_kernel_is_dropped():
    long = Verdict("runtime_error", True, False, error_message="start " + "x " * 500 + "end")
    messages = build_prompt(PROBLEM, [attempt("only", long)], style="full", count_tokens=words, budget=490)
    text = messages[-1]["content"]
    assert "'only'" in text
    assert "start" in text
    assert "end" in text
    assert words(messages) <= 490


@pytest.mark.parametrize(("kernel", "said"), [("x = 1 " * 300, False), (None, True)])
def test_a_kernel_left_out_for_room_is_not_called_missing(kernel, said):
    broken = Verdict("compile_error", False, False, error_message="start " + "x " * 500 + "end")
    messages = build_prompt(PROBLEM, [Attempt(kernel, broken)], style="full", count_tokens=words, budget=500)
    text = messages[-1]["content"]
    assert "Compiled: no" in text
    assert "x = 1 x = 1" not in text
    assert ("No code was found" in text) == said


def test_what_was_left_out_stays_so_where_control_tokens_are_broken():
    tries = [Attempt(None, Verdict("compile_error", False, False), left_out=True)]
    text = build_prompt(PROBLEM, tries, style="full", inert=str.lower)[-1]["content"]
    assert "No code was found" not in text


def test_a_problem_beyond_the_budget_is_refused_by_name():
    with pytest.raises(PromptTooLongError, match=r"problem p takes \d+ tokens .* budget is 5"):
        build_prompt(PROBLEM, [attempt("x")], style="full", count_tokens=words, budget=5)
