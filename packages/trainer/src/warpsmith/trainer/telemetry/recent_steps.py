"""What a run did lately: the numbers of the live display, independent of how they are drawn."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_PHASES = ("collect", "train", "sync")
_KEPT_STEPS = 40
_LATELY_S = 60.0
_KNOWN_SHARE = 0.125
_KNOWN_TURNS = 4
"""The first steps' time is estimated from this share of a batch's turns, and from this many at least."""


@dataclass
class Collection:
    """A batch of trajectories that is being sampled.

    Attributes:
        label: what it is for, for example `step 7` or `held out`.
        trajectories: how many it needs.
        done: how many have ended.
        most_turns: how many turns it has if no trajectory ends early.
        turns: how many have ended.
        began: when it began, by the display's clock.
    """

    label: str
    trajectories: int
    done: int = 0
    most_turns: int = 0
    turns: int = 0
    began: float = 0.0


@dataclass
class RecentWork:
    """The state of a run as its display needs it. Not thread-safe; a reader in another thread sees a recent state.

    Args:
        steps: the step at which the run ends.
        done: steps that were done before this start.
        clock: monotonic seconds.
        step_turns: turns of a step if no trajectory ends early.

    Attributes:
        phase: what the run does now.
        figures: figures of recent steps, oldest first.
        warning: the last warning, and the step it belongs to.
    """

    steps: int
    done: int = 0
    clock: Callable[[], float] = time.monotonic
    step_turns: int = 0
    phase: str = "start"
    figures: deque[Mapping[str, float]] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))
    warning: str = ""
    collections: list[Collection] = field(default_factory=list)
    _turns: deque[tuple[float, int, float, float]] = field(default_factory=deque)
    _step_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))

    def __post_init__(self) -> None:
        self.began = self.phase_began = self._step_began = self.clock()

    def enter(self, phase: str) -> None:
        """Note what the run does from now on."""
        self.phase, self.phase_began = phase, self.clock()

    def resume_at(self, done: int) -> None:
        """Note that earlier starts made `done` steps, and that the steps of this start begin now."""
        self.done, self._step_began = done, self.clock()

    def collect(self, label: str, trajectories: int, most_turns: int = 0) -> None:
        """Note that a batch of trajectories begins; another of the same label adds to it (dynamic sampling)."""
        self.collections = [one for one in self.collections if one.done < one.trajectories or one.label == label]
        for one in self.collections:
            if one.label == label:
                one.trajectories += trajectories
                one.most_turns += most_turns
                return
        self.collections.append(Collection(label, trajectories, most_turns=most_turns, began=self.clock()))

    def turn(self, row: Mapping[str, Any]) -> None:
        """Note that a turn has ended."""
        now = self.clock()
        tokens = len(row.get("completion_ids") or ())
        self._turns.append((now, tokens, row.get("evaluate_s") or 0.0, row.get("generate_s") or 0.0))
        while self._turns[0][0] < now - _LATELY_S:
            self._turns.popleft()
        if (one := self._oldest_open()) is not None:
            one.turns += 1

    def trajectory(self) -> None:
        """Note that a trajectory of the oldest open batch has ended."""
        if (one := self._oldest_open()) is not None:
            one.done += 1

    def _oldest_open(self) -> Collection | None:
        return next((one for one in self.collections if one.done < one.trajectories), None)

    def step(self, figures: Mapping[str, float]) -> None:
        """Note that a step has ended."""
        now = self.clock()
        self._step_s.append(now - self._step_began)
        self._step_began = now
        self.done += 1
        self.figures.append(figures)

    def left_s(self) -> float | None:
        """Estimated seconds to the last step, from the mean of recent ones; None before the first."""
        if not self._step_s:
            return None
        mean = sum(self._step_s) / len(self._step_s)
        spent = min(self.clock() - self._step_began, mean)
        return max(0.0, (self.steps - self.done) * mean - spent)

    def rollouts_left_s(self) -> float | None:
        """Estimated seconds for the rollouts of the steps that remain; None before enough turns have ended.

        For the time before the first step has ended: by the seconds per turn of the batch that is being sampled, a
        held-out one included, if no trajectory of the steps ends early.
        """
        one = self._oldest_open()
        if one is None or one.turns < max(_KNOWN_TURNS, _KNOWN_SHARE * one.most_turns):
            return None
        return (self.steps - self.done) * self.step_turns * (self.clock() - one.began) / one.turns

    def phases(self) -> dict[str, float]:
        """Seconds of each phase of the last step."""
        last = self.figures[-1] if self.figures else {}
        return {name: last[f"{name}_s"] for name in _PHASES if f"{name}_s" in last}

    def rates(self) -> tuple[float, float, float] | None:
        """Tokens sampled per second, and mean numbers of turns being evaluated and being generated, over a minute."""
        if len(self._turns) < 2:
            return None
        seconds = min(_LATELY_S, self.clock() - self.began, self.clock() - self._turns[0][0] + 1.0)
        tokens, evaluated, generated = (sum(turn[i] for turn in self._turns) for i in (1, 2, 3))
        return tokens / seconds, evaluated / seconds, generated / seconds

    def history(self, name: str) -> list[float]:
        """One figure of the recent steps that have it, oldest first."""
        return [figures[name] for figures in self.figures if name in figures]
