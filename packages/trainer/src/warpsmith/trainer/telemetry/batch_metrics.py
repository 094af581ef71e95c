"""Metrics of a batch of turns: rewards, correctness, lengths, times; overall and by turn."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsmith.rollout.turn_recording import bytes_over_start
from warpsmith.trainer.advantage.types import Credit
from warpsmith.trainer.rollouts.batch import TrainingTurns, truncated

_COLUMNS: Mapping[str, str] = MappingProxyType({"kl": "kl_reference", "clipped_fraction": "clip_fraction"})


def batch_figures(table: pa.Table) -> dict[str, float]:
    """Return the figures of a table of TURNS; rates and means are over its valid turns.

    `turn_<n>/...` are those of turn n, from 1; `agent_<name>/...` those of an agent, see `_agent_figures`.
    `aggregated_return_mean` is over trajectories, the mean return of first turns; `turn_return_mean` is over all turns.
    `solved_rate` is the share of trajectories with a correct turn. Lengths and `truncated_rate` are over turns with at
    least one token, since completions count even if their evaluation was lost; a turn that was lost before sampling has
    no length.
    """
    valid = table.filter(table["valid"])
    generated = _generated(table)
    lengths = _lengths(generated)
    figures = {
        "turns": float(table.num_rows),
        "invalid_rate": 1.0 - valid.num_rows / table.num_rows if table.num_rows else float("nan"),
        "trajectories": float(pc.count_distinct(table["trajectory"]).as_py()),
        "invalid_turns": float(table.num_rows - valid.num_rows),
        "tokens": float(pc.sum(lengths).as_py() or 0),
        "completion_length_mean": _mean(lengths),
        "completion_length_max": float(pc.max(lengths).as_py() or 0),
        "truncated_rate": float(truncated(generated).mean()) if generated.num_rows else float("nan"),
        "solved_rate": _solved(valid),
        **_rates(valid),
        "aggregated_return_mean": _mean(valid.filter(pc.equal(valid["turn"], 0))["return"]),
        "turn_return_mean": _mean(valid["return"]),
    }
    for turn in sorted(pc.unique(valid["turn"]).to_pylist()):
        own = valid.filter(pc.equal(valid["turn"], turn))
        rates = {
            **_rates(own),
            "return_mean": _mean(own["return"]),
            "completion_length_mean": _mean(_lengths(own)),
        }
        figures |= {f"turn_{turn + 1}/{name}": value for name, value in rates.items()}
    figures |= _agent_figures(valid)
    return {name: value for name, value in figures.items() if np.isfinite(value)}


def _agent_figures(valid: pa.Table) -> dict[str, float]:
    """Return the figures of each agent that took one of these valid turns; none in an environment without agents.

    `solved_rate` is the share of its trajectories in which one of its turns is correct. `speedup_over_start_mean` is
    over its correct timed turns, where nothing is timed `bytes_over_start_mean` (the start's bytes moved over its own)
    over its correct turns; `improved_rate` is the share of its trajectories with a turn better than the start by that
    measure. Only an optimizer has them.
    """
    found: dict[str, float] = {}
    for agent in sorted(pc.unique(valid["agent"].drop_null()).to_pylist()):
        own = valid.filter(pc.fill_null(pc.equal(valid["agent"], agent), False))
        rates, over_start, saved = _rates(own), own["speedup_over_start"], _bytes_over_start(own)
        figures = {
            "turns": float(own.num_rows),
            "solved_rate": _solved(own),
            "correct_rate": rates["correct_rate"],
            "reward_mean": rates["reward_mean"],
            "return_mean": _mean(own["return"]),
            "speedup_over_start_mean": _mean(over_start),
            "bytes_over_start_mean": _mean(saved),
        }
        gains = saved if over_start.null_count == len(over_start) else over_start
        if gains.null_count < len(gains):
            figures["improved_rate"] = _share_of_trajectories(own, pc.fill_null(pc.greater(gains, 1.0), False))
        found |= {f"agent_{agent}/{name}": value for name, value in figures.items()}
    return found


def _bytes_over_start(turns: pa.Table) -> pa.Array:
    return pa.array([bytes_over_start({"verdict": one}) for one in turns["verdict"].to_pylist()], pa.float64())


def level_figures(table: pa.Table) -> dict[str, float]:
    """Return `level_<n>/...` for each level of a table of TURNS: the shares solved and correct, the mean score.

    Empty if all problems have one level, or none.
    """
    levels = sorted(level for level in pc.unique(table["level"]).to_pylist() if level is not None)
    if len(levels) < 2:
        return {}
    found: dict[str, float] = {}
    for level in levels:
        own = table.filter(pc.and_(pc.fill_null(pc.equal(table["level"], level), False), table["valid"]))
        rates = _rates(own)
        shown = {
            "solved_rate": _solved(own),
            "correct_rate": rates["correct_rate"],
            "reward_mean": rates["reward_mean"],
        }
        found |= {f"level_{level}/{name}": value for name, value in shown.items() if np.isfinite(value)}
    return found


def credit_figures(credit: Credit) -> dict[str, float]:
    """Return the number of baseline groups, and how many of them gave no signal."""
    counted = credit.advantage[credit.counted]
    return {
        "groups": float(credit.groups),
        "flat_groups": float(credit.flat_groups),
        "flat_group_rate": credit.flat_groups / credit.groups if credit.groups else 1.0,
        "advantage_abs_mean": float(np.abs(counted).mean()) if len(counted) else 0.0,
        "advantage_min": float(counted.min(initial=0.0)),
        "advantage_max": float(counted.max(initial=0.0)),
    }


def phase_figures(table: pa.Table) -> dict[str, float]:
    """Return how long turns were generated, compiled, waiting for the evaluator and evaluated, in seconds.

    Mean and 90th percentile over the turns that went through the phase; phases of different turns overlap, so they do
    not add up to the time of a step.
    """
    found: dict[str, float] = {}
    for name in ("generate_s", "compile_s", "wait_s", "evaluate_s"):
        known = table[name].combine_chunks().drop_null()
        if len(known):
            found[f"turn_{name}_mean"] = _mean(known)
            found[f"turn_{name}_p90"] = float(pc.quantile(known, q=0.9)[0].as_py())
    return found


def spread_figures(table: pa.Table, spread_groups: int | None) -> dict[str, float]:
    """Return the number of sampled prompt groups, and the share of them without spread.

    The share is omitted if `spread_groups` is None: a value head does not compare samples.
    """
    groups = pc.count_distinct(table["group"]).as_py()
    figures = {"sampled_groups": float(groups)}
    if spread_groups is None:
        return figures
    return figures | {"no_spread_rate": 1.0 - spread_groups / groups if groups else 1.0}


def staleness(table: pa.Table, version: int) -> Mapping[str, float]:
    """Return by how many versions the sampled tokens are older than `version`, on average and at most."""
    versions = pc.list_flatten(table["weight_versions"])
    if not len(versions):
        return {}
    ages = version - versions.to_numpy()
    return {"staleness_mean": float(ages.mean()), "staleness_max": float(ages.max())}


def trained_tokens(turns: TrainingTurns, ratios: Mapping[str, NDArray[np.float64]]) -> int:
    """Return the number of tokens of the turns that were run through the policy, with prompts, each turn once.

    Args:
        turns: N turns.
        ratios: columns of `credits`, each (N,); `ratio_mean` is NaN for a turn that was not run.
    """
    return sum(len(turns.rows[row]) for row in np.flatnonzero(np.isfinite(ratios["ratio_mean"])))


def columns(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures whose column of `steps` has another name; only those that the step measured."""
    return {column: figures[name] for column, name in _COLUMNS.items() if name in figures}


def _generated(turns: pa.Table) -> pa.Table:
    return turns.filter(pc.greater(_lengths(turns), 0))


def _lengths(turns: pa.Table) -> pa.ChunkedArray:
    return pc.list_value_length(turns["completion_ids"])


def _rates(turns: pa.Table) -> dict[str, float]:
    verdict = turns["verdict"].combine_chunks()
    return {
        "reward_mean": _mean(turns["reward"]),
        "compiled_rate": _mean(verdict.field("compiled").cast(pa.float64())),
        "correct_rate": _mean(verdict.field("correct").cast(pa.float64())),
        "speedup_mean": _mean(verdict.field("speedup")),
        **_quantiles("speedup", verdict.field("speedup")),
    }


def _quantiles(name: str, values: pa.Array) -> dict[str, float]:
    """Return quantiles of the non-null values, by linear interpolation."""
    known = values.drop_null()
    if not len(known):
        return {}
    found = pc.quantile(known, q=[0.1, 0.5, 0.9, 1.0]).to_pylist()
    return {f"{name}_{key}": float(value) for key, value in zip(("p10", "p50", "p90", "max"), found, strict=True)}


def _solved(turns: pa.Table) -> float:
    return _share_of_trajectories(turns, pc.fill_null(turns["verdict"].combine_chunks().field("correct"), False))


def _share_of_trajectories(turns: pa.Table, chosen: "pa.Array | pa.ChunkedArray") -> float:
    """Return the share of trajectories with a chosen turn."""
    found = pc.count_distinct(turns["trajectory"].filter(chosen)).as_py()
    return found / count if (count := pc.count_distinct(turns["trajectory"]).as_py()) else float("nan")


def _mean(values: "pa.Array | pa.ChunkedArray") -> float:
    mean = pc.mean(values).as_py()
    return float("nan") if mean is None else float(mean)
