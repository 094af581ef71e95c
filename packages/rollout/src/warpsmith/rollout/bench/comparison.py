"""Comparison of two results, problem by problem, with a paired bootstrap."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from warpsmith.evaluator.bench.scores import FASTER_THAN
from warpsmith.rollout import metrics
from warpsmith.rollout.bench.config import differing
from warpsmith.rollout.bench.errors import ResultError

COMPARED: Final = ("model", "strategy")
"""Settings whose difference is what a comparison is about."""
_NAMED: Final = 5


@dataclass(frozen=True)
class BenchComparison:
    """The second result minus the first.

    Attributes:
        differs: the settings in which they differ, by dotted name, with both values.
        measures: `solved` (share of a problem's searches with a correct answer) and, if both were timed, `fast_p` for
            each p above 0 and `log_speedup` (natural logarithm of the geometric mean speedup, over the problems that
            both solve).
        spent: what each spent.
    """

    differs: dict[str, tuple[Any, Any]]
    measures: dict[str, metrics.Comparison]
    spent: tuple[dict[str, Any], dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def compare_results(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    *,
    differing_too: Sequence[str] = (),
    resamples: int = 10_000,
    seed: int = 0,
) -> BenchComparison:
    """Compare two results of the same problems.

    Args:
        first, second: results as `read_result` returns them.
        differing_too: settings that may differ besides model and strategy; a table includes its keys.
        resamples, seed: of the bootstrap over problems.

    Raises:
        ResultError: they have other problems or devices, or differ in another setting; a search of one has no score.
    """
    _check_problems(first, second)
    differs = differing(first["settings"], second["settings"])
    _check_settings(first, second, differs, differing_too)
    before, after = _measures(first), _measures(second)
    return BenchComparison(
        {name: (value_of(first, name), value_of(second, name)) for name in differs},
        {
            name: metrics.compare(before[name], after[name], resamples=resamples, seed=seed)
            for name in before
            if set(before[name]) & set(after.get(name, {}))
        },
        (dict(first["spent"]), dict(second["spent"])),
    )


def _check_settings(
    first: Mapping[str, Any], second: Mapping[str, Any], differs: Sequence[str], allowed: Sequence[str]
) -> None:
    foreign = [name for name in differs if not _is_allowed(name, (*COMPARED, *allowed))]
    if foreign:
        raise ResultError(
            f"The results differ in other settings than model and strategy: {_values(first, second, foreign)}.",
            f"Run one of them again; or compare all the same with {' '.join(f'--differing {n}' for n in foreign)}.",
        )
    devices = [result["devices"] for result in (first, second) if result["devices"]]
    if devices[1:] and devices[0] != devices[1] and not _is_allowed("devices", allowed):
        raise ResultError(
            f"The results were timed on different devices: {' and '.join(map(', '.join, devices))}.",
            "Run one of them again on the device of the other, or pass --differing devices.",
        )


def _is_allowed(name: str, allowed: Sequence[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def value_of(result: Mapping[str, Any], name: str) -> Any:
    """Return a setting by its dotted name; None if the result does not have it."""
    value: Any = result["settings"]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _values(first: Mapping[str, Any], second: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} ({value_of(first, name)!r} and {value_of(second, name)!r})" for name in names)


def _check_problems(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Refuse results of other problems, and incomplete ones: what is missing is not missing at random."""
    one, other = ({(s["problem"], s["problem_sha256"]) for s in result["searches"]} for result in (first, second))
    if one != other or first["problem_set"] != second["problem_set"]:
        alone = sorted(name for name, _ in one ^ other)
        named = f": {', '.join(alone[:_NAMED])}{', ...' if len(alone) > _NAMED else ''}" if alone else ""
        raise ResultError(
            f"The results are of different problems ({len(one)} and {len(other)}){named}.",
            "Compare results of one dataset with the same --levels, --count, --split and --seed.",
        )
    for name, result in (("first", first), ("second", second)):
        open_ = [f"{s['problem']} sample {s['sample']} ({s['ended']})" for s in result["searches"] if not s["scored"]]
        if open_:
            raise ResultError(
                f"The {name} result has {len(open_)} searches without a score: {', '.join(open_[:_NAMED])}"
                f"{', ...' if len(open_) > _NAMED else ''}.",
                "Run its command again, which repeats what was lost; leave out problems that were refused.",
            )


def _measures(result: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return each measure by problem."""
    by_problem: dict[str, list[Mapping[str, Any]]] = {}
    for search in result["searches"]:
        by_problem.setdefault(search["problem_sha256"], []).append(search)
    found = {"solved": {name: _share([s["correct"] for s in own]) for name, own in by_problem.items()}}
    if not is_timed(result):
        return found
    for p in FASTER_THAN[1:]:
        found[f"fast_{p:g}"] = {
            name: _share([s["speedup"] is not None and s["speedup"] > p for s in own])
            for name, own in by_problem.items()
        }
    logs = {name: [math.log(s["speedup"]) for s in own if s["speedup"]] for name, own in by_problem.items()}
    found["log_speedup"] = {name: sum(values) / len(values) for name, values in logs.items() if values}
    return found


def is_timed(result: Mapping[str, Any]) -> bool:
    """Whether times were taken; on a CPU none are."""
    return any(score["speed"] is not None for score in result["scores"])


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def lines_of(found: BenchComparison) -> list[str]:
    """Return a comparison as text."""
    lines = [f"{name}: {one} -> {other}" for name, (one, other) in found.differs.items()]
    for name, measure in found.measures.items():
        if name == "log_speedup":
            first, second, gain = (math.exp(value) for value in (measure.first, measure.second, measure.difference))
            low, high = math.exp(measure.low), math.exp(measure.high)
            lines.append(
                f"speedup of both (geometric mean, {measure.problems} problems): {first:.3g}x -> {second:.3g}x, ratio "
                f"{gain:.3g} (95 % interval {low:.3g} to {high:.3g})"
            )
            continue
        lines.append(
            f"{name}, {measure.problems} problems: {measure.first:.1%} -> {measure.second:.1%}, difference "
            f"{measure.difference:+.1%} (95 % interval {measure.low:+.1%} to {measure.high:+.1%}); better in "
            f"{measure.probability:.1%} of resamples"
        )
    if len(found.measures) == 1:
        lines.append("Nothing was timed: there is no comparison of speed.")
    before, after = found.spent
    for name in ("attempts", "evaluations", "prompt_tokens", "completion_tokens", "cost"):
        if before.get(name) is not None or after.get(name) is not None:
            lines.append(f"{name}: {_number(before.get(name))} -> {_number(after.get(name))}")
    return lines


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
