"""Compares what problems compute: both are run on the same seeded inputs in a contained reference worker.

The inputs, and if possible the arguments of the constructor, are those of the examined problem. Parameters are made
equal if both have the same shapes in the same order, so that the order of construction does not matter.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Self

from warpsmith.evaluator import Evaluator
from warpsmith.evaluator.client.evaluator import Output
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.problem import Problem
from warpsmith.rollout.datasets.computation_program import PROGRAM

SEEDS: Final = (1, 2, 3)
RELATIVE: Final = 1e-4
"""Largest difference between equal outputs, relative to the largest of them."""
_MOST_CHARACTERS: Final = 3 << 20


@dataclass(frozen=True)
class Computation:
    """What running a problem revealed.

    Attributes:
        same_as: names of the known problems that computed the same under each seed.
        shapes: shapes of the outputs.
        samples: some values of the outputs, per seed.
        reason: why nothing is known: it cannot be run, or does not depend on its inputs; empty if it is known.
    """

    same_as: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    samples: tuple[tuple[float, ...], ...] = ()
    reason: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` wrote; TypeError or KeyError if it is something else."""
        return cls(
            tuple(record["same_as"]),
            tuple(map(tuple, record["shapes"])),
            tuple(map(tuple, record["samples"])),
            str(record["reason"]),
        )

    @cached_property
    def scale(self) -> float:
        """The largest finite magnitude of the samples."""
        return max((abs(value) for sample in self.samples for value in sample if math.isfinite(value)), default=0.0)

    def equals(self, other: "Computation") -> bool:
        """Whether two problems have equal outputs on their own inputs under each seed."""
        if not self.samples or self.shapes != other.shapes or len(self.samples) != len(other.samples):
            return False
        # First what distinguishes most of them: there may be millions of pairs.
        if abs(self.scale - other.scale) > RELATIVE * max(self.scale, other.scale):
            return False
        return all(_close(one, two) for one, two in zip(self.samples, other.samples, strict=True))


def _close(one: Sequence[float], two: Sequence[float]) -> bool:
    if len(one) != len(two):
        return False
    scale = max((abs(value) for value in (*one, *two) if math.isfinite(value)), default=0.0)
    return all(
        a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= RELATIVE * scale
        for a, b in zip(one, two, strict=True)
    )


def compute(evaluator: Evaluator, problem: str, known: Mapping[str, str]) -> Computation:
    """Run a problem, and known ones on its inputs.

    Args:
        evaluator: runs them in a contained worker.
        problem: the source of the examined problem.
        known: sources of known problems by name.

    Raises:
        EvaluatorError: the evaluator failed; a retry may succeed.
    """
    found: Computation | None = None
    for part in _parts(known):
        one = _compute(evaluator, problem, part)
        if one.reason:
            return one
        found = one if found is None else Computation((*found.same_as, *one.same_as), one.shapes, one.samples)
    assert found is not None, "there is a part even without known problems"
    return found


def _parts(known: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the known problems in parts that fit one request; one empty part if there are none."""
    part: dict[str, str] = {}
    size = 0
    for name, source in known.items():
        if part and size + len(source) > _MOST_CHARACTERS // 2:
            yield part
            part, size = {}, 0
        part[name] = source
        size += len(source)
    yield part


def _compute(evaluator: Evaluator, problem: str, known: Mapping[str, str]) -> Computation:
    program = PROGRAM.format(own=_literal(problem), others=_literal(json.dumps(list(known.values()))))
    try:
        drawn = evaluator.outputs(Problem("compared", program), SEEDS)
    except BadProblemError as error:
        return Computation(reason=error.message)
    return _read(drawn, list(known))


def _literal(text: str) -> str:
    return ascii(text)


def _read(drawn: Sequence[Sequence[Output]], names: Sequence[str]) -> Computation:
    """Return what the program returned: shapes, sample and a score per known problem, for each seed."""
    if any(len(outputs) != len(_PARTS) or len(outputs[2].values) != len(names) + 1 for outputs in drawn):
        return Computation(reason="it changed the program that compares it")
    samples = tuple(outputs[1].values for outputs in drawn)
    if all(_close(samples[0], other) for other in samples[1:]):
        return Computation(reason="its outputs do not depend on its inputs")
    scores = zip(*(outputs[2].values[:-1] for outputs in drawn), strict=True) if names else ()
    same = tuple(name for name, score in zip(names, scores, strict=True) if all(value == 1.0 for value in score))
    return Computation(same, _shapes(drawn[0][0].values), samples)


_PARTS: Final = ("shapes", "sample", "scores")


def _shapes(values: Sequence[float]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a flat list `rank, size, ..., rank, size, ...` holds."""
    found, rest = [], [int(value) for value in values]
    while rest:
        rank, rest = rest[0], rest[1:]
        found.append(tuple(rest[:rank]))
        rest = rest[rank:]
    return tuple(found)
