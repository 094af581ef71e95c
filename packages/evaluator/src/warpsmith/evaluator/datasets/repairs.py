"""Repairs of KernelBench's problems: other inputs where answers depend on none, sizes for a card of 24 GB.

`kernelbench_repairs.toml` names each problem by the SHA-256 of its source, so another revision is left alone.
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from warpsmith.evaluator.datasets.source_changes import Change, changed
from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.problem import Problem

FORMAT: Final = 1
DATA: Final = "kernelbench_repairs.toml"

RepairSet = Literal["inputs", "24gb"]
SETS: Final[tuple[RepairSet, ...]] = get_args(RepairSet)
BOTH: Final = "inputs+24gb"
"""Key of the changes for both sets, where those of one do not fit beside those of the other."""


class Repair(BaseModel):
    """The changes of one problem for one set.

    Attributes:
        reason: why these changes.
        changes: the changes, each at a place of its own.
        remains: what still passes, in words; empty if nothing does.
        audited: at which size an audit on a CPU found that nothing else passes; empty if there was none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    changes: tuple[Change, ...] = Field(min_length=1)
    remains: str = ""
    audited: Literal["", "reduced", "full"] = ""


class ProblemRepairs(BaseModel):
    """What is known about one problem.

    Attributes:
        level, number, name: the problem.
        sha256: of the source that this applies to.
        why: why wrong outputs pass; empty if none does.
        beyond_repair: why no inputs or sizes help; empty if they do.
        sets: the repairs, by set, or by `inputs+24gb` if both sets need other changes together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: int
    number: int
    name: str
    sha256: str = Field(pattern="[0-9a-f]{64}")
    why: str = ""
    beyond_repair: str = ""
    sets: dict[Literal["inputs", "24gb", "inputs+24gb"], Repair] = {}

    def chosen(self, wanted: Collection[RepairSet]) -> dict[str, Repair]:
        """Return the repairs for the wanted sets; empty if this problem needs none of them."""
        if BOTH in self.sets and set(SETS) <= set(wanted):
            return {BOTH: self.sets[BOTH]}
        return {name: self.sets[name] for name in SETS if name in wanted and name in self.sets}


@dataclass(frozen=True)
class Repaired:
    """A problem after repair.

    Attributes:
        problem: the problem, with the new source.
        original: the problem before.
        repairs: the repairs made, by set; empty if its source is unchanged.
        other_revision: whether there is a repair for another source under its level, number and name.
        beyond_repair: why no change helps, for a problem of the set `inputs`; else empty.
    """

    problem: Problem
    original: Problem
    repairs: Mapping[str, Repair]
    other_revision: bool = False
    beyond_repair: str = ""


@cache
def known() -> tuple[ProblemRepairs, ...]:
    """Return the repairs that come with this package, by level and number."""
    return parsed(files("warpsmith.evaluator.datasets").joinpath(DATA).read_text(encoding="utf-8"))


def parsed(text: str) -> tuple[ProblemRepairs, ...]:
    """Return the repairs in a TOML text.

    Raises:
        DatasetError: it has another format, or names a problem twice.
        ValidationError: an entry has other keys or types.
    """
    held = tomllib.loads(text)
    if held.get("format") != FORMAT:
        raise DatasetError(f"Repairs of the format {held.get('format')!r}.", f"Give those of the format {FORMAT}.")
    found = tuple(ProblemRepairs.model_validate(entry) for entry in held["problem"])
    if len({(one.level, one.number) for one in found}) < len(found):
        raise DatasetError("Repairs name a problem twice.", "Keep one entry for each level and number.")
    return found


def repaired(
    problems: Iterable[Problem], sets: Collection[RepairSet] = SETS, repairs: Iterable[ProblemRepairs] | None = None
) -> list[Repaired]:
    """Repair problems; those that need nothing, or are of another revision, keep their source.

    Args:
        problems: the problems, with level and number.
        sets: which repairs to make.
        repairs: the repairs to choose from; this package's by default.

    Raises:
        DatasetError: a change does not fit the source that it names.
    """
    of_place = {(one.level, one.number): one for one in (known() if repairs is None else repairs)}
    return [_repaired(problem, of_place.get((problem.level or 0, problem.number or 0)), sets) for problem in problems]


def _is_named(problem: Problem, name: str) -> bool:
    """Whether a problem has a name, with its number before it or not; one of another dataset has another."""
    prefix = f"{problem.number}_"
    return problem.name.removeprefix(prefix) == name.removeprefix(prefix)


def _repaired(problem: Problem, known: ProblemRepairs | None, sets: Collection[RepairSet]) -> Repaired:
    if known is None or (known.sha256 != problem.key and not _is_named(problem, known.name)):
        return Repaired(problem, problem, {})
    beyond = known.beyond_repair if "inputs" in sets else ""
    chosen = known.chosen(sets)
    if known.sha256 != problem.key:
        return Repaired(problem, problem, {}, other_revision=bool(chosen or beyond))
    if not chosen:
        return Repaired(problem, problem, {}, beyond_repair=beyond)
    source = changed(problem.source, [change for repair in chosen.values() for change in repair.changes])
    new = Problem(problem.name, source, problem.level, problem.source_id, problem.number)
    return Repaired(new, problem, chosen, beyond_repair=beyond)
