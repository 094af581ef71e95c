"""How far apart the naive and the good solutions of generated problems of GPU size are, as the evaluator times them.

For each family it judges problems spread over 1 to 256 MiB, and of each problem solutions of both grades. The ratio
good:naive is how much faster the fastest good solution is than the fastest naive one: what a policy that starts from
naive solutions can gain.

    python benchmarks/generated_speed.py --problems 3 --draws 2
    python benchmarks/generated_speed.py --language cuda_cpp --draws 0   # is every solution in CUDA C++ correct?
"""

import argparse
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from _machine import describe, need_gpu, write_result

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem
from warpsmith.rollout.generator import (
    SOLUTION_LANGUAGES,
    GeneratedProblem,
    Grade,
    Solution,
    SolutionLanguage,
    generate,
    solution_language,
)

HERE = Path(__file__).parent
GRADES: Final[tuple[Grade, ...]] = ("naive", "good")
MOST_DRAWN: Final = 4000
"""Problems to draw until each family has enough."""


def problems_by_family(
    seed: int, count: int, families: Sequence[str], language: SolutionLanguage
) -> dict[str, list[GeneratedProblem]]:
    """Return `count` problems of each family, their bytes spread evenly over those that were drawn."""
    drawn: dict[str, list[GeneratedProblem]] = defaultdict(list)
    for problem in generate(seed=seed, count=min(MOST_DRAWN, 240 * count), size="gpu", language=language):
        if not families or problem.family in families:
            drawn[problem.family].append(problem)
    return {family: spread(drawn[family], count) for family in sorted(drawn)}


def spread(problems: Sequence[GeneratedProblem], count: int) -> list[GeneratedProblem]:
    """Return the problems at `count` even quantiles of their bytes."""
    by_bytes = sorted(problems, key=lambda problem: problem.touched or 0)
    places = [(2 * i + 1) * len(by_bytes) // (2 * count) for i in range(count)]
    return [by_bytes[place] for place in dict.fromkeys(places)]


def drawn_solutions(problem: GeneratedProblem, grade: Grade, draws: int) -> list[Solution]:
    """Return `draws` different solutions of a grade, or all if there are fewer; 0 asks for all."""
    assert problem.space is not None
    known = list(problem.space.solutions(grade))
    return known if draws == 0 else random.Random(problem.source).sample(known, min(draws, len(known)))


def judged(evaluator: Evaluator, problem: GeneratedProblem, solution: Solution) -> dict[str, Any]:
    """Judge one solution with timing."""
    started = time.perf_counter()
    verdict = evaluator.evaluate(Problem(problem.name, problem.source, problem.level), solution.text)
    return {
        "grade": solution.grade,
        "pattern": solution.pattern,
        "choices": dict(solution.choices),
        "characters": len(solution.text),
        "status": verdict.status,
        "runtime_ms": verdict.runtime_ms,
        "reference_ms": verdict.reference_ms,
        "speedup": verdict.speedup,
        "timing_tier": verdict.timing_tier,
        "flags": list(verdict.flags),
        "message": verdict.error_message,
        "seconds": round(time.perf_counter() - started, 2),
    }


def judge_problem(evaluator: Evaluator, problem: GeneratedProblem, draws: int) -> dict[str, Any]:
    """Judge a problem's solutions of both grades."""
    solutions = [one for grade in GRADES for one in drawn_solutions(problem, grade, draws)]
    rows = [judged(evaluator, problem, one) for one in solutions]
    return {
        "name": problem.name,
        "mib": round((problem.touched or 0) / 2**20, 2),
        "composition": problem.composition,
        **{f"{grade}_speedup": best(rows, grade) for grade in GRADES},
        "ratio_good_to_naive": ratio(best(rows, "good"), best(rows, "naive")),
        "solutions": rows,
    }


def best(rows: Sequence[dict[str, Any]], grade: Grade) -> float | None:
    """Return the largest speedup of a grade's correct solutions."""
    return max((row["speedup"] for row in rows if row["grade"] == grade and row["speedup"] is not None), default=None)


def ratio(good: float | None, naive: float | None) -> float | None:
    return good / naive if good is not None and naive else None


def summary(problems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a family's geometric means over its problems, and what was not correct."""
    wrong = [
        f"{problem['name']}: {row['pattern']} {row['choices']}: {row['status']}"
        for problem in problems
        for row in problem["solutions"]
        if row["status"] != "correct"
    ]
    names = (*(f"{grade}_speedup" for grade in GRADES), "ratio_good_to_naive")
    return {name: geometric_mean(one[name] for one in problems) for name in names} | {"not_correct": wrong}


def geometric_mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value]
    return round(math.exp(sum(map(math.log, known)) / len(known)), 3) if known else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=3, help="problems of each family")
    parser.add_argument("--draws", type=int, default=1, help="solutions of each grade and problem; 0 judges all")
    parser.add_argument("--families", default="", help="names separated by commas; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--language", choices=SOLUTION_LANGUAGES, default="triton", help="of the solutions")
    parser.add_argument("--out", type=Path, help="default: results/generated_speed.json, or that of the language")
    arguments = parser.parse_args()
    language = solution_language(arguments.language)
    out = arguments.out or HERE / "results" / f"generated_speed{'' if language == 'triton' else f'_{language}'}.json"
    need_gpu()
    head = describe(("torch", "triton", "warpsmith-evaluator", "warpsmith-rollout"))
    chosen = [name for name in arguments.families.split(",") if name]
    found = problems_by_family(arguments.seed, arguments.problems, chosen, language)
    if unknown := set(chosen) - found.keys():
        parser.error(f"there is no family {', '.join(sorted(unknown))}")
    families: dict[str, Any] = {}
    with Evaluator(EvaluatorConfig(device="cuda", slots=1, timeout_s=60, language=language)) as evaluator:
        for family, problems in found.items():
            rows = [judge_problem(evaluator, problem, arguments.draws) for problem in problems]
            families[family] = {**summary(rows), "problems": rows}
            print(family, summary(rows), flush=True)
            # Written after each family, so that an interrupted run leaves what it has.
            write_result(out, {**head, "seed": arguments.seed, "language": language, "families": families})


if __name__ == "__main__":
    main()
