"""What the tests share: one tiny model for the session, a scripted sampler and a scripted judge for episode logic."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow, from_generated
from warpsmith.rollout.generator import generate
from warpsmith.rollout.prompts import build_prompt
from warpsmith.rollout.samplers.base import Completion

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))

# How long an example takes says nothing on a machine that does other work as well.
EXAMPLES = int(os.environ.get("WARPSMITH_EXAMPLES", "40"))
settings.register_profile("unhurried", settings(), deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory) -> Path:
    """A randomly initialised Qwen3 decoder with a tokenizer trained on generated kernels."""
    from warpsmith.policy.tiny import build_tiny

    problems = [from_generated(problem, "train") for problem in generate(seed=0, count=200)]
    prompts = [build_prompt(problem, style="compact") for problem in problems]
    corpus = [f"{prompt[-1]['content']}\n{row.solution}" for prompt, row in zip(prompts, problems, strict=True)]
    return build_tiny(tmp_path_factory.mktemp("model") / "tiny", corpus, layers=2, hidden=128, heads=4, kv_heads=2)


@pytest.fixture
def problem() -> ProblemRow:
    return from_generated(generate(seed=0, count=1, levels=(1,))[0], "train")


class CharacterChat:
    """A chat format whose ids are characters, so that tests can script completions as text."""

    stop_token_ids = (0,)
    opens_thoughts = False

    def prompt_ids(self, messages):
        return [ord(c) for m in messages for c in f"<{m['role']}>{m['content']}"]

    def decode(self, ids):
        return "".join(chr(i) for i in ids if i)

    def inert(self, text):
        return text.replace("<user>", "< user>")


class ScriptedSampler:
    """Answers with texts from a script; an exception in the script is raised, a callable is awaited."""

    def __init__(self, *script, version=3) -> None:
        self.script = list(script)
        self.weight_version = version
        self.requests = []

    async def generate(self, prompt_ids, sampling):
        self.requests.append((list(prompt_ids), sampling))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = await answer()
        ids = [ord(c) for c in answer] + [0]
        return Completion(ids, [-0.5] * len(ids), [self.weight_version] * len(ids), "stop")

    async def score(self, ids):
        return [0.0] * len(ids)

    async def update_weights(self, payload):
        self.weight_version = payload.version

    async def close(self):
        return


class ScriptedJudge:
    """Judges by a function of the kernel's text; counts what it was asked."""

    def __init__(self, rule: Callable[[str], Verdict | Exception]) -> None:
        self.rule = rule
        self.asked = []
        self.policies = []

    async def evaluate_async(
        self, problem, candidate, *, trials=None, seed=None, timeout_s=None, operators=None, on_running=None
    ):
        self.asked.append((problem.name, candidate, trials, timeout_s))
        self.policies.append(operators)
        if on_running is not None:
            on_running(True)
        await asyncio.sleep(0)
        verdict = self.rule(candidate)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


@pytest.fixture
def chat():
    return CharacterChat()


@pytest.fixture
def scripted_sampler():
    return ScriptedSampler


@pytest.fixture
def scripted_judge():
    return ScriptedJudge


CORRECT = Verdict("correct", True, True)
WRONG = Verdict("incorrect", True, False, max_abs_error=1.5, mismatched_fraction=0.25)
BROKEN = Verdict("compile_error", False, False, error_category="syntax_error", error_message="invalid syntax")


@pytest.fixture
def verdicts():
    return {"correct": CORRECT, "wrong": WRONG, "broken": BROKEN}
