"""Problems of GPU size: their bytes, their splits, and solutions that are short, varied and right.

What runs here are small ones of the same generator: the interpreter cannot do 256 MiB.
"""

import ast
import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator import Evaluator, EvaluatorConfig
from warpsmith.evaluator.extract import extract_kernel
from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets import from_generated, with_solution
from warpsmith.rollout.generator import GPU_BYTES, ByteRange, generate, split_of
from warpsmith.rollout.generator.gpu.families import GPU_LEVELS
from warpsmith.rollout.generator.gpu.solutions import LONGEST
from warpsmith.rollout.prompts import build_prompt

SUPPORT = Path(__file__).parents[1] / "support"
SMALL = ByteRange(8 << 10, 48 << 10)
FAMILIES = sorted({family.__name__ for families in GPU_LEVELS.values() for family in families})
MOST_TENSOR_BYTES = 256 << 20


def large(seed, count, **more):
    return generate(seed=seed, count=count, size="gpu", **more)


def of_each_family(seed, count, **more):
    """Return `count` problems of each family."""
    found, counts = [], Counter()
    for problem in large(seed, 120 * count, **more):
        counts[problem.family] += 1
        if counts[problem.family] <= count:
            found.append(problem)
    assert sorted(counts) == FAMILIES
    assert len(found) == count * len(FAMILIES)
    return found


def tensors(problem):
    """Return all tensors that a problem touches, without memory: inputs, parameters and the output."""
    names = {}
    exec(problem.source, names)
    with torch.device("meta"):
        model, inputs = names["Model"](*names["get_init_inputs"]()), names["get_inputs"]()
        return [*inputs, *model.parameters(), model(*inputs)]


def size_in_bytes(tensor):
    return tensor.numel() * tensor.element_size()


RANGES = st.tuples(st.integers(8192, 1 << 27), st.integers(4, 64)).map(lambda r: ByteRange(r[0], r[0] * r[1]))


@given(st.integers(0, 2**32), RANGES | st.just(GPU_BYTES), st.sampled_from(["train", "held_out"]))
@settings(max_examples=30, deadline=None)
def test_a_problem_touches_as_many_bytes_as_asked_for(seed, within, split):
    for problem in large(seed, 6, split=split, touched=within):
        sizes = [size_in_bytes(tensor) for tensor in tensors(problem)]
        assert sum(sizes) == problem.touched
        assert within.least <= problem.touched <= within.most


def test_sizes_are_spread_over_the_whole_range_and_no_tensor_is_too_large():
    problems = large(5, 400)
    doublings = Counter(problem.touched.bit_length() for problem in problems)
    assert sorted(doublings) == list(range(21, 29))
    assert min(doublings.values()) >= 20
    assert max(size_in_bytes(tensor) for problem in problems for tensor in tensors(problem)) <= MOST_TENSOR_BYTES
    rows = [tensors(problem)[0].shape[-1] for problem in problems]
    awkward = sum(row % 16 != 0 for row in rows)
    assert 100 <= awkward <= 300
    assert sum(row & (row - 1) == 0 for row in rows) >= 40


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(["train", "held_out"]))
@settings(max_examples=20, deadline=None)
def test_the_same_seed_gives_the_same_problems_and_solutions_and_all_differ(seed, count, split):
    more = large(seed, count + 3, split=split)
    again = large(seed, count, split=split)
    texts = [(problem.source, problem.solution, problem.naive) for problem in more]
    assert [(problem.source, problem.solution, problem.naive) for problem in again] == texts[:count]
    assert len({p.name for p in more}) == len({p.source for p in more}) == count + 3
    assert all(problem.naive != problem.solution for problem in more)


@given(st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_the_splits_share_no_composition(seed):
    train = {problem.composition for problem in large(seed, 90)}
    held_out = {problem.composition for problem in large(seed + 1, 90, split="held_out")}
    assert not train & held_out
    assert {split_of(composition) for composition in train} == {"train"}
    assert {split_of(composition) for composition in held_out} == {"held_out"}


def test_both_splits_have_all_families_and_many_compositions():
    for split, fewest in (("train", 200), ("held_out", 100)):
        problems = large(3, 360, split=split)
        assert len({problem.composition for problem in problems}) > fewest
        assert sorted({problem.family for problem in problems}) == FAMILIES


def test_a_level_gives_the_same_problems_whatever_other_levels_are_asked_for():
    assert large(1, 4, levels=(2,)) == [problem for problem in large(1, 12) if problem.level == 2]


def test_small_problems_are_the_default_and_have_no_naive_solution():
    problem = generate(seed=1, count=1)[0]
    assert generate(seed=1, count=1, size="cpu") == [problem]
    assert (problem.naive, problem.space, problem.touched) == (None, None, None)
    with pytest.raises(UsageError, match=f"Problem {problem.name} has no naive solution"):
        with_solution(from_generated(problem, "train"), "naive")


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: generate(seed=0, count=1, size="huge"), "cpu, gpu"),
        (lambda: ByteRange(4096, 1 << 20), "8,192"),
        (lambda: ByteRange(1 << 20, 3 << 20), "four times"),
    ],
)
def test_sizes_that_cannot_be_drawn_say_what_can(make, part):
    with pytest.raises(UsageError, match=part):
        make()


def test_solutions_are_short_extracted_whole_and_vary_by_named_choices():
    chosen = {}
    for problem in of_each_family(2, 3):
        for solution in problem.space.solutions():
            names = {n.name for n in ast.parse(solution.text).body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
            assert names in ({"kernel", "ModelNew"}, {f"kernel_{n}" for n in range(1, len(names))} | {"ModelNew"})
            assert len(solution.text) <= LONGEST["triton"] + 50
            assert extract_kernel(solution.text.strip()) == solution.text
            assert extract_kernel(f"Here:\n```python\n{solution.text.strip()}\n```") == solution.text
            for name, value in solution.choices.items():
                assert f"{name}={value}" in solution.text
            chosen.setdefault((problem.family, solution.grade), set()).add(str((solution.pattern, solution.choices)))
        assert {solution.text for solution in problem.space.solutions("naive")} >= {problem.naive}
        assert {solution.text for solution in problem.space.solutions("good")} >= {problem.solution}
    assert chosen.keys() == {(family, grade) for family in FAMILIES for grade in ("naive", "good")}
    assert min(map(len, chosen.values())) >= 4


def test_no_solution_is_both_naive_and_good():
    for problem in of_each_family(4, 4):
        naive, good = ({s.text for s in problem.space.solutions(grade)} for grade in ("naive", "good"))
        assert naive
        assert good
        assert not naive & good


def test_the_compact_prompt_has_the_sizes_and_stays_short():
    for problem in of_each_family(6, 3):
        (message,) = build_prompt(from_generated(problem, "train"), style="compact")
        first, *_ = tensors(problem)
        assert all(f"= {size}\n" in message["content"] for size in first.shape)
        assert len(message["content"]) <= 500


def written(root, solutions):
    """Write problem and solution of each pair into a folder of its own."""
    for number, (problem, text) in enumerate(solutions):
        folder = root / f"{number}_{problem.name}"
        folder.mkdir()
        (folder / "problem.py").write_text(problem.source)
        (folder / "solution.py").write_text(text)
    return root


def run_program(name, root, **environment):
    done = subprocess.run(
        [sys.executable, str(SUPPORT / name), str(root)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def one_of_each_pattern(problems):
    """Yield a problem and a solution for each family, pattern and grade, with new choices each time."""
    seen = set()
    for problem in problems:
        rng = random.Random(problem.source)
        texts = {}
        for solution in problem.space.solutions():
            texts.setdefault((problem.family, solution.pattern, solution.grade), []).append(solution.text)
        for place in texts.keys() - seen:
            seen.add(place)
            yield problem, rng.choice(texts[place])


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(6, marks=pytest.mark.long)])
def test_every_pattern_agrees_with_its_problem(tmp_path, count):
    solutions = list(one_of_each_pattern(of_each_family(11, count, touched=SMALL)))
    errors = run_program("interpreted_solutions.py", written(tmp_path, solutions), TRITON_INTERPRET="1")
    assert len(errors) == len(solutions) >= 4 * len(FAMILIES) - 8
    assert {name: error for name, error in errors.items() if error > 1e-4} == {}


@pytest.mark.slow
def test_every_pattern_compiles_for_a_gpu_with_its_numbers(tmp_path):
    solutions = list(one_of_each_pattern(of_each_family(12, 3)))
    failures = run_program("compiled_solutions.py", written(tmp_path, solutions))
    assert failures == dict.fromkeys(failures)
    assert len(failures) == len(solutions)


@pytest.fixture(scope="module")
def judge():
    with Evaluator(EvaluatorConfig(minimum_isolation="none", slots=2)) as judge:
        yield judge


@pytest.mark.long  # each pattern is interpreted and compiled above; test_end_to_end.py has solutions judged
@pytest.mark.parametrize("seed", range(21, 27))
def test_the_evaluator_finds_both_solutions_of_each_family_correct(judge, seed):
    rows = [from_generated(problem, "train") for problem in of_each_family(seed, 1, touched=SMALL)]
    rows = [with_solution(row, grade) for row in rows for grade in ("naive", "good")]

    async def go():
        return await asyncio.gather(
            *(judge.evaluate_async(row.to_problem(), row.solution, trials=3, timeout_s=60) for row in rows)
        )

    verdicts = asyncio.run(go())
    wrong = {row.name: (v.status, v.error_message) for row, v in zip(rows, verdicts, strict=True) if not v.correct}
    assert wrong == {}
    assert all(verdict.compiled for verdict in verdicts)
