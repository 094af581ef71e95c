"""Rewards by `type`: the entry points in `warpsmith.rewards`."""

from dataclasses import replace

from warpsmith.evaluator.figures import Bound
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.errors import BadRewardError, RewardFailedError
from warpsmith.rollout.registries import REWARDS
from warpsmith.rollout.rewards.base import FOREIGN_ERRORS, Scorer, describe_error
from warpsmith.rollout.rewards.config import AnyReward, FunctionRewardConfig
from warpsmith.rollout.turns import Turn


def scorer_for(config: AnyReward) -> Scorer:
    """Load the configured reward and try it on examples of all inputs that a run can pass.

    Raises:
        RegistryError: no package provides a reward of this type, or it cannot be imported.
        BadRewardError: it cannot be created from these settings, or does not return a number for an example.
    """
    make = REWARDS.get(config.type)
    name = f"reward function {config.path}" if isinstance(config, FunctionRewardConfig) else f"reward {config.type}"
    try:
        scorer = Scorer(name, make(**config.model_dump(exclude={"type"})))
    except BadRewardError:
        raise
    except FOREIGN_ERRORS as error:
        raise BadRewardError(
            f"rollout.reward: {config.type} of {REWARDS.provider(config.type)} cannot use these settings: "
            f"{describe_error(error)}.",
            "Fix the keys of [rollout.reward].",
        ) from error
    _try(scorer)
    return scorer


def _try(scorer: Scorer) -> None:
    for what, turn, history in examples():
        try:
            scorer.value(turn, history, f"an example, {what}")
        except RewardFailedError as error:
            raise BadRewardError(
                f"rollout.reward: {error.message}", "Fix the reward; docs/extending.md describes its arguments."
            ) from error.__cause__


def examples() -> list[tuple[str, Turn, tuple[Turn, ...]]]:
    """Return turns of each kind that a run can produce, each with its name and the turns before it."""
    timed = Verdict(
        "correct", compiled=True, correct=True, speedup=1.5, runtime_ms=0.2, reference_ms=0.3, trials=3,
        speedups={"eager": 1.5}, references_ms={"eager": 0.3}, bound=Bound(4096, 0, 0.1, 0.0, 0.1, "memory"),
    )  # fmt: skip
    untimed = Verdict("correct", compiled=True, correct=True, trials=3)
    wrong = Verdict(
        "incorrect", compiled=True, correct=False, max_abs_error=0.5, mismatched_fraction=0.25, trials=1,
        error_message="Wrong elements: 25 %.",
    )  # fmt: skip
    no_code = Verdict("compile_error", compiled=False, correct=False, error_category="parse_error", error_message="No.")
    first = Turn(0, "example", "generated/train", 1, "```python\npass\n```", "pass\n", 8, False, timed)
    lost = replace(first, completion="I give up.", kernel=None, truncated=True, verdict=no_code)
    before = replace(first, verdict=wrong, score=0.0)
    return [
        ("a correct kernel with a speedup of 1.5", first, ()),
        ("a correct kernel where nothing is timed (speedup None)", replace(first, verdict=untimed), ()),
        ("a wrong kernel", replace(first, verdict=wrong), ()),
        ("an answer without code (kernel None)", lost, ()),
        ("a correct kernel in turn 2", replace(first, index=1), (before,)),
        ("a problem without a level (level None)", replace(first, level=None), ()),
    ]
