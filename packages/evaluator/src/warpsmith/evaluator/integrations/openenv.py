"""OpenEnv: an environment server in which an action is a completion and the observation its verdict.

    app = create_app(lambda: KernelEnvironment(problems), KernelAction, KernelObservation)

An `invalid` verdict is an observation without a reward, with `status` "invalid"; the client repeats the step.
"""

import random
from collections.abc import Sequence
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from warpsmith.evaluator.instructions import task
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.opening import Where, shared_grader
from warpsmith.evaluator.rewards.score import InvalidVerdictError
from warpsmith.records.errors import UsageError

__all__ = ["KernelAction", "KernelEnvironment", "KernelObservation"]


class KernelAction(Action):  # type: ignore[misc]
    """What a model wrote.

    Attributes:
        completion: the text, with the kernel in a code block.
    """

    completion: str


class KernelObservation(Observation):  # type: ignore[misc]
    """What a model receives.

    Attributes:
        text: the task after `reset`, else the findings about the kernel.
        status: the verdict's status; empty after `reset`.
        problem: the problem's name.
    """

    text: str
    status: str = ""
    problem: str = ""


class KernelEnvironment(Environment):  # type: ignore[misc]
    """A kernel in several turns; the reward of a turn is its score.

    Args:
        problems: the problems, of which `reset` draws one by its seed, or takes the one named `problem`.
        where: servers, or settings of an evaluator on this machine; as for `open_grader`.
        operators: what `forward` may compute with PyTorch besides its kernels.
        max_turns: turns of an episode.

    Raises:
        UsageError: there are no problems.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        problems: Sequence[Problem],
        where: Where | None = None,
        *,
        operators: OperatorPolicy = "none",
        max_turns: int = 1,
    ) -> None:
        super().__init__()
        if not problems:
            raise UsageError("The environment has no problems.", "Give those of load_problems.")
        self._problems = problems
        self._where = where
        self._operators = operators
        self._max_turns = max_turns
        self._problem = problems[0]
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, problem: str | None = None, **others: Any
    ) -> KernelObservation:
        """Begin an episode: with the problem of that name, else with one drawn by the seed.

        Raises:
            UsageError: there is no problem of that name.
        """
        named = [one for one in self._problems if problem in (None, one.name)]
        if not named:
            raise UsageError(f"There is no problem {problem!r}.", f"The first is {self._problems[0].name!r}.")
        self._problem = random.Random(seed).choice(named)
        self._state = State(episode_id=episode_id, step_count=0)
        return KernelObservation(text=task(self._problem.source, self._operators), problem=self._problem.name)

    def step(self, action: KernelAction, timeout_s: float | None = None, **others: Any) -> KernelObservation:
        """Judge a completion. A step whose verdict is `invalid` does not count."""
        grader = shared_grader(self._where, operators=self._operators)
        try:
            grade = grader.grade(action.completion, self._problem)
        except InvalidVerdictError as error:
            return KernelObservation(text=str(error), status="invalid", problem=self._problem.name)
        self._state.step_count += 1
        return KernelObservation(
            text=grade.feedback,
            status=grade.verdict.status,
            problem=self._problem.name,
            reward=grade.score,
            done=grade.verdict.correct or self._state.step_count >= self._max_turns,
            metadata={"verdict": grade.verdict.to_record()},
        )

    @property
    def state(self) -> State:
        """The episode and its number of turns."""
        return self._state
