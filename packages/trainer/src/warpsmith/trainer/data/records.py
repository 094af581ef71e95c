"""Reads a policy's own turns from the records of runs, as chats: those that the evaluator accepted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from warpsmith.records.reader import RunReader
from warpsmith.trainer.config.sources import RecordsSource
from warpsmith.trainer.data.sample import Refusal, Sample
from warpsmith.trainer.errors import DataError

_JUDGED = (
    "trajectory",
    "turn",
    "num_turns",
    "role",
    "problem",
    "kernel",
    "valid",
    "finish_reason",
    "reward",
    "verdict",
)
_TEXT = ("trajectory", "turn", "problem", "messages", "completion")

Turn = dict[str, Any]
Position = tuple[int, int]
"""Index of the run, and index of the turn in it."""


@dataclass(frozen=True)
class _Passed:
    """A turn that passed the filters: its problem, its place, its rank, and its kernel's digest."""

    problem: str
    trajectory: str
    turn: int
    reward: float
    speedup: float
    kernel: bytes | None


def read_records(section: RecordsSource) -> Iterator[Sample | Refusal]:
    """Yield the turns of the runs in `path` that the section selects, and the reasons for skipping the others.

    Reads each run twice: first the verdicts, then the text of the selected turns. A turn is one chat: its prompt as it
    was sampled, including earlier attempts, and its completion.

    Raises:
        NoRecordsError: a directory has no records.
        DataError: no run has a role of the section.
        SegmentError: they are damaged.
    """
    passed: dict[Position, _Passed] = {}
    failed: set[tuple[int, str, int]] = set()
    roles: set[str] = set()
    for number, run in enumerate(section.path):
        for index, turn in enumerate(_rows(run, _JUDGED)):
            roles.add(turn["role"])
            if turn["verdict"] is not None and turn["verdict"]["status"] not in ("correct", "invalid"):
                failed.add((number, turn["trajectory"], turn["turn"]))
            refused = _refused(turn, section)
            if refused is None:
                passed[number, index] = _passed(turn)
            else:
                yield Refusal(refused[0], _place(turn, run), refused[1])
    _check_roles(section, roles)
    outranked = _unselected(passed, failed, section)
    outranked |= _outranked({at: one for at, one in passed.items() if at not in outranked}, section)
    for number, run in enumerate(section.path):
        for index, turn in enumerate(_rows(run, _TEXT)):
            if (number, index) in outranked:
                yield Refusal(outranked[number, index], _place(turn, run))
            elif (number, index) in passed:
                yield _sample(turn, run)


def _check_roles(section: RecordsSource, found: set[str]) -> None:
    unknown = sorted(set(section.roles) - found)
    if found and unknown:
        raise DataError(
            f"No turn of {', '.join(map(str, section.path))} has the role {' or '.join(map(repr, unknown))}.",
            f"Roles of these runs: {', '.join(sorted(found))}. Set data.source.roles to some of them.",
        )


def count_turns(section: RecordsSource) -> int:
    """Return the number of recorded turns of the runs."""
    return sum(report.rows for run in section.path for report in RunReader(run).segments("turns"))


def _rows(run: Path, columns: Sequence[str]) -> Iterator[Turn]:
    for batch in RunReader(run).batches("turns", columns=columns, latest=True):
        yield from batch.to_pylist()


def _refused(turn: Turn, section: RecordsSource) -> tuple[str, str] | None:
    """Return why a turn is skipped, reason and detail; None for one that passes."""
    verdict = turn["verdict"]
    if turn["role"] not in section.roles:
        return f"sampled for another role than {' or '.join(section.roles)}", turn["role"]
    if not turn["valid"] or verdict is None:
        return "invalid: never evaluated", ""
    if verdict["status"] not in section.statuses:
        return f"its verdict is not {' or '.join(section.statuses)}", verdict["status"]
    if section.turns == "final" and turn["turn"] < turn["num_turns"] - 1:
        return "not the last turn of its trajectory", ""
    if turn["finish_reason"] == "length":
        return "cut off at the length limit, so without an end to learn", ""
    return _too_poor(turn, section)


def _too_poor(turn: Turn, section: RecordsSource) -> tuple[str, str] | None:
    verdict, speedup = turn["verdict"], turn["verdict"]["speedup"]
    if section.min_score is not None and turn["reward"] < section.min_score:
        return f"reward below {section.min_score}", f"{turn['reward']:.3f}"
    if section.min_speedup is not None and speedup is None:
        return "not timed", ""
    if section.min_speedup is not None and speedup < section.min_speedup:
        return f"speedup below {section.min_speedup}", f"{speedup:.3f}"
    flags = sorted(set(verdict["flags"] or ()) & set(section.without_flags))
    return ("flagged", ", ".join(flags)) if flags else None


def _passed(turn: Turn) -> _Passed:
    kernel = turn["kernel"]
    digest = None if kernel is None else blake2b(kernel.strip().encode(), digest_size=16).digest()
    speedup = turn["verdict"]["speedup"] or 0.0
    return _Passed(turn["problem"], turn["trajectory"], turn["turn"], turn["reward"], speedup, digest)


def _unselected(
    passed: dict[Position, _Passed], failed: set[tuple[int, str, int]], section: RecordsSource
) -> dict[Position, str]:
    """Return the turns that `select` leaves out, each with the reason.

    Args:
        passed: the turns that passed the filters.
        failed: run, trajectory and turn of each turn that was judged and is not correct.
        section: the source.
    """
    match section.select:
        case "first_right":
            first: dict[tuple[int, str], int] = {}
            for (run, _), one in passed.items():
                first[run, one.trajectory] = min(one.turn, first.get((run, one.trajectory), one.turn))
            reason = "not the first of its trajectory that is right"
            return {at: reason for at, one in passed.items() if one.turn > first[at[0], one.trajectory]}
        case "repairs":
            reason = "repairs nothing: the turn before it is none that failed"
            return {at: reason for at, one in passed.items() if (at[0], one.trajectory, one.turn - 1) not in failed}
        case _:
            return {}


def _outranked(passed: dict[Position, _Passed], section: RecordsSource) -> dict[Position, str]:
    """Return the turns that rank below better ones of their problem, each with the reason."""
    most = section.best or (1 if section.select == "best" else 0)
    ranked = sorted(passed.items(), key=lambda item: (-item[1].reward, -item[1].speedup, item[0]))
    taken: Counter[str] = Counter()
    kernels: set[tuple[str, bytes]] = set()
    out: dict[Position, str] = {}
    for position, one in ranked:
        twin = section.deduplicate and one.kernel is not None and (one.problem, one.kernel) in kernels
        if twin:
            out[position] = "repeated: its problem already has this kernel"
        elif most and taken[one.problem] >= most:
            out[position] = f"not among the best {most} of its problem"
        else:
            taken[one.problem] += 1
            kernels |= {(one.problem, one.kernel)} if one.kernel is not None else set()
    return out


def _sample(turn: Turn, run: Path) -> Sample | Refusal:
    if not turn["completion"].strip():
        return Refusal("an empty answer", _place(turn, run))
    messages = [*turn["messages"], {"role": "assistant", "content": turn["completion"]}]
    return Sample(messages, turn["problem"], _place(turn, run))


def _place(turn: Turn, run: Path) -> str:
    return f"turn {turn['turn'] + 1} of {turn['trajectory']} in {run}"
