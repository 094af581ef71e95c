"""Whether a generator and an optimizer both learn by GRPO, at the demo's scale: two cores, no GPU.

A small decoder is warmed by imitation of a corpus in which there is something left to learn: half of the generator's
answers carry a common bug, its kernels are not fused where that is possible, and half of the optimizer's answers are
their start, unchanged. GRPO in `kernelbench_two_role` then pays the generator for correct kernels and the optimizer
for fewer bytes moved. Both are compared on held-out problems before and after.

    python benchmarks/two_roles.py --steps 10
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _machine import describe, write_result

from warpsmith.evaluator.verdict import Verdict
from warpsmith.policy.tiny import build_tiny
from warpsmith.records.reader import RunReader
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.generator import GeneratedProblem, Split, generate
from warpsmith.rollout.generator.gpu.sizes import ByteRange
from warpsmith.rollout.history import Attempt
from warpsmith.rollout.metrics import compare
from warpsmith.rollout.prompts import build_prompt
from warpsmith.rollout.turn_recording import bytes_over_start
from warpsmith.trainer.data.kernel_bugs import with_bug

RESULT = Path(__file__).parent / "results" / "two_roles.json"
TOUCHED = (16384, 65536)
DRAWS = 20

SFT = """
[run]
dir = "{out}/sft"
steps = {sft_steps}
torch_threads = 1
seed = {seed}
[policy]
path = "{out}/policy"
dtype = "float32"
[data]
max_tokens = 400
batch_size = 16
eval_examples = 32
eval_every = 0
[data.source]
type = "chats"
path = "{out}/chats.jsonl"
[optimizer]
lr = 3e-3
schedule = {{ type = "cosine", min_lr_ratio = 0.05 }}
warmup_steps = 20
[zero]
stage = 2
micro_batch_tokens = 2048
[wandb]
mode = "disabled"
"""
GRPO = """
[run]
console = "steps"
dir = "{out}/grpo"
steps = {steps}
torch_threads = 1
seed = {seed}
[policy]
path = "{out}/sft/final_model"
dtype = "float32"
[problems]
type = "files"
path = "{out}/train.jsonl"
[rollout]
operators = "none"
prompt_style = "compact"
gamma = 0.4
concurrency = 64
[rollout.environment]
type = "kernelbench_two_role"
generator_turns = 1
optimizer_turns = 1
[rollout.sampling]
temperature = 1.0
max_tokens = 110
[rollout.sampler]
device = "cpu"
dtype = "float32"
max_model_len = 512
max_sequences = 64
[evaluator]
trials = 2
reference_sessions = 24
[algorithm]
estimator = "turn"
prompts_per_step = 8
samples_per_prompt = 6
aggregation = {{ type = "constant", length = 56 }}
[optimizer]
lr = 3e-4
warmup_steps = 2
[zero]
stage = 2
micro_batch_tokens = 2048
[held_out]
problems = {held_out}
samples = 2
source = {{ type = "files", path = "{out}/held_out.jsonl" }}
[wandb]
mode = "disabled"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="steps of GRPO")
    parser.add_argument("--sft-steps", type=int, default=300, help="steps of the warm-up")
    parser.add_argument("--held-out", type=int, default=40, help="held-out problems, two samples each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="directory of the runs; a temporary one by default")
    given = parser.parse_args()
    out = given.output or Path(tempfile.mkdtemp(prefix="two-roles-"))
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    make_policy(out, given.seed)
    fields = {**vars(given), "out": out}
    for command, text in (("sft", SFT), ("grpo", GRPO)):
        file = out / f"{command}.toml"
        file.write_text(text.format(**fields))
        subprocess.run([sys.executable, "-m", "warpsmith.trainer", command, str(file)], check=True)
    found = {
        "machine": describe(),
        "steps": given.steps, "sft_steps": given.sft_steps, "held_out": given.held_out, "seed": given.seed,
        "seconds": round(time.monotonic() - began),
        **outcome(out / "grpo"),
    }  # fmt: skip
    write_result(RESULT, found)
    print(json.dumps(found, indent=2))


# The warm-up's corpus ------------------------------------------------------------------------------------------------


def make_policy(out: Path, seed: int) -> None:
    """Write the corpus, and a small decoder whose tokenizer was trained on it."""
    rng = random.Random(seed)
    problems = chosen(seed, 1500, "train")
    for name, rows in (("train", problems), ("held_out", chosen(seed + 20_000, 1200, "held_out"))):
        lines = (json.dumps({"code": one.source, "name": one.name, "level": one.level}) for one in rows)
        (out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    chats = [chat for problem in problems for chat in exchanges(problem, rng)]
    rows = (json.dumps({"messages": chat}) for chat in chats)
    (out / "chats.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    texts = [message["content"] for chat in chats[:1500] for message in chat]
    build_tiny(out / "policy", texts, seed=seed, vocab_size=768, layers=2, hidden=96, heads=3, kv_heads=1)


def chosen(seed: int, count: int, split: Split) -> list[GeneratedProblem]:
    """Return the problems of `count` that are chains of operations on one input, which two kernels or one can do."""
    drawn = generate(seed=seed, count=count, split=split, levels=(1,), size="gpu", touched=ByteRange(*TOUCHED))
    return [one for one in drawn if one.family == "elementwise" and unfused(one, random.Random(0)) != one.solution]


def exchanges(problem: GeneratedProblem, rng: random.Random) -> list[list[dict[str, str]]]:
    """Return the generator's task and the optimizer's after it, with answers to imitate."""
    row, slow = from_generated(problem, "train"), unfused(problem, rng)
    written = with_bug(problem.source, slow, rng) if rng.random() < 0.5 else slow
    # An unfused kernel moves about twice what the problem touches.
    moved = (problem.touched or 0) * (1 if slow == problem.solution else 2)
    start = Attempt(slow, Verdict("correct", True, True, bytes_moved=moved))
    improved = slow if rng.random() < 0.5 else problem.solution
    asked = (("generator", None, written), ("optimizer", start, improved))
    return [
        [
            *build_prompt(row, style="compact", agent=agent, start=given),
            {"role": "assistant", "content": answer.strip()},
        ]
        for agent, given, answer in asked
    ]  # type: ignore[misc]


def unfused(problem: GeneratedProblem, rng: random.Random) -> str:
    """Return an answer of two kernels where the problem has one, else the good answer."""
    drawn = (problem.space.draw("naive", rng).text for _ in range(DRAWS)) if problem.space else iter(())
    return next((text for text in drawn if "kernel_2" in text), problem.solution)


# What was learnt -----------------------------------------------------------------------------------------------------


def outcome(run: Path) -> dict[str, Any]:
    """Return both evaluations and their differences, paired by problem, with 95 % intervals."""
    turns = [row for row in RunReader(run).table("turns").to_pylist() if row["role"] == "held_out" and row["valid"]]
    last = max(row["after_step"] for row in turns)
    before, after = ([row for row in turns if row["after_step"] == step] for step in (0, last))
    measures = {"generator_solved": solved, "optimizer_correct": kept, "optimizer_log2_bytes": saved}
    compared = {name: asdict(compare(of(before), of(after))) for name, of in measures.items()}
    return {"before": told(before), "after": told(after), "differences": compared}


def told(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if row["agent"] == "optimizer"]
    gains = [gain_of(row) for row in own]
    return {
        "generator_turns": len(rows) - len(own),
        "optimizer_turns": len(own),
        "optimizer_fewer_bytes": mean([gain > 0 for gain in gains]),
        "optimizer_geometric_mean_ratio": 2 ** mean(gains),
    }


def solved(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return by_problem(rows, "generator", lambda row: float(row["verdict"]["correct"]))


def kept(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return by_problem(rows, "optimizer", lambda row: float(row["verdict"]["correct"]))


def saved(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return by_problem(rows, "optimizer", gain_of)


def gain_of(row: Mapping[str, Any]) -> float:
    """Return log2 of the start's bytes over a turn's; 0 if that is worse or wrong, since the start remains."""
    return max(0.0, math.log2(bytes_over_start(row) or 1.0))


def by_problem(rows: Sequence[Mapping[str, Any]], agent: str, value: Any) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["agent"] == agent:
            found.setdefault(row["problem"], []).append(value(row))
    return {problem: mean(values) for problem, values in found.items()}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
