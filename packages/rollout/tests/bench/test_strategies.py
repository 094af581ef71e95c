"""Strategies as pure functions of the attempts so far: order, selection, populations, budgets."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.verdict import STATUSES, Verdict
from warpsmith.records.errors import UsageError
from warpsmith.rollout.bench.budget import Budget
from warpsmith.rollout.bench.config import BudgetConfig
from warpsmith.rollout.bench.strategies.base import Attempt
from warpsmith.rollout.bench.strategies.config import EvolveConfig
from warpsmith.rollout.bench.strategies.evolve import Evolve, select, survivors_of
from warpsmith.rollout.bench.strategies.mutations import Mutation, draw, read_mutations
from warpsmith.rollout.bench.strategies.ranking import best_first, best_of, rank
from warpsmith.rollout.bench.strategies.simple import Independent, Refine
from warpsmith.rollout.turns import Turn

TIMED = st.floats(0.1, 50)


@st.composite
def verdicts(draw, *, timed=True):
    status = draw(st.sampled_from([one for one in STATUSES if one != "invalid"]))
    correct = status == "correct"
    return Verdict(
        status,
        compiled=correct or status == "rejected" or draw(st.booleans()),
        correct=correct,
        speedup=draw(TIMED) if correct and timed else None,
        mismatched_fraction=draw(st.none() | st.floats(0, 1)) if status == "incorrect" else None,
    )


def made(plan, verdict, kernel="same"):
    code = f"k{plan.index}" if kernel == "same" else kernel
    return Attempt(plan, Turn(plan.index, "p", "s", 1, "text", code, 5, False, verdict), 10, 5)


def run(strategy, verdict_of, key="0/x", kernel_of=lambda plan: f"k{plan.index}"):
    """Play a search to its end; return all attempts and the rounds."""
    attempts, rounds = [], []
    while plans := strategy.plan(key, attempts):
        rounds.append(plans)
        attempts += [made(plan, verdict_of(plan), kernel_of(plan)) for plan in plans]
    return attempts, rounds


@given(verdicts(), verdicts())
def test_speed_counts_before_correctness_before_compiling_and_rejected_ones_are_worth_least(one, other):
    if one.correct and not other.correct:
        assert rank(one) > rank(other)
    if one.correct and other.correct and one.speedup > other.speedup:
        assert rank(one) > rank(other)
    if one.status == "rejected" and other.status not in ("rejected", "correct"):
        assert rank(one) < rank(other)
    wrong = one.status == other.status == "incorrect" and one.compiled and other.compiled
    shares = [1.0 if found.mismatched_fraction is None else found.mismatched_fraction for found in (one, other)]
    if wrong and shares[0] < shares[1]:
        assert rank(one) > rank(other)


@given(st.lists(verdicts(), min_size=1, max_size=12))
def test_the_best_attempt_is_the_first_of_the_best_ones(found):
    attempts = [made(plan, verdict) for plan, verdict in zip(Independent(len(found)).plan("", []), found, strict=True)]
    best, ordered = best_of(attempts), best_first(attempts)
    assert best is ordered[0]
    assert best.index == min(one.index for one in attempts if rank(one.verdict) == rank(best.verdict))
    assert sorted(one.index for one in ordered) == list(range(len(found)))


@given(st.lists(verdicts(), min_size=1, max_size=12), st.integers(1, 20), st.integers())
def test_a_parent_is_the_best_of_those_drawn(found, tournament, seed):
    attempts = [made(plan, verdict) for plan, verdict in zip(Independent(len(found)).plan("", []), found, strict=True)]
    parent = select(attempts, tournament, random.Random(seed))
    not_worse = sum(rank(one.verdict) <= rank(parent.verdict) for one in attempts)
    assert not_worse >= min(tournament, len(attempts))
    if tournament >= len(attempts):
        assert rank(parent.verdict) == max(rank(one.verdict) for one in attempts)


def test_single_refine_and_best_of_n_plan_what_they_say():
    wrong = Verdict("incorrect", True, False)
    _, rounds = run(Independent(1), lambda plan: wrong)
    assert [[plan.index for plan in one] for one in rounds] == [[0]]
    _, rounds = run(Independent(3), lambda plan: wrong)
    assert [[plan.index for plan in one] for one in rounds] == [[0, 1, 2]]
    attempts, rounds = run(Refine(4), lambda plan: wrong)
    assert [plan.parents for (plan,) in rounds] == [(), (0,), (0, 1), (0, 1, 2)]
    untimed = Verdict("correct", True, True)
    attempts, _ = run(Refine(4), lambda plan: untimed if plan.index == 1 else wrong)
    assert len(attempts) == 2
    timed = Verdict("correct", True, True, speedup=2.0)
    attempts, _ = run(Refine(4), lambda plan: timed)
    assert len(attempts) == 4


@st.composite
def evolutions(draw):
    islands, population = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return EvolveConfig(
        attempts=islands * population + draw(st.integers(0, 20)),
        population=population,
        children=draw(st.integers(1, 4)),
        islands=islands,
        migrate_every=draw(st.integers(1, 3)),
        tournament=draw(st.integers(1, 4)),
        inspirations=draw(st.integers(0, 2)),
    )


@given(evolutions(), st.integers(), st.data())
def test_an_evolution_makes_its_attempts_once_from_earlier_ones_of_different_kernels(config, seed, data):
    mutations = read_mutations(None)
    found = {}

    def verdict_of(plan):
        return found.setdefault(plan.index, data.draw(verdicts()))

    def kernel_of(plan):
        return None if found[plan.index].status == "compile_error" else f"k{plan.index % 5}"

    strategy = Evolve(config, mutations)
    attempts, rounds = run(strategy, verdict_of, f"{seed}/x", kernel_of)
    assert [one.index for one in attempts] == list(range(config.attempts))
    begun = 0
    for plans in rounds:
        for plan in plans:
            assert all(parent < begun for parent in plan.parents)
            assert len(plan.parents) <= 1 + config.inspirations and len(set(plan.parents)) == len(plan.parents)
            kernels = [attempts[parent].turn.kernel for parent in plan.parents]
            assert None not in kernels and len(set(kernels)) == len(kernels)
            if plan.parents:
                correct = attempts[plan.parents[-1]].verdict.correct
                assert plan.mutation.when in ("any", "correct" if correct else "wrong")
        begun += len(plans)
    # The same attempts give the same plans: a resumed search asks the same.
    again, _ = run(strategy, verdict_of, f"{seed}/x", kernel_of)
    assert [one.plan for one in again] == [one.plan for one in attempts]


@given(evolutions(), st.data())
def test_survivors_are_the_best_of_their_island_and_its_guests(config, data):
    attempts, _ = run(Evolve(config, read_mutations(None)), lambda plan: data.draw(verdicts()))
    survivors = survivors_of(config, attempts)
    assert all(0 < len(island) <= config.population for island in survivors)
    for number, island in enumerate(survivors):
        assert [rank(one.verdict) for one in island] == sorted((rank(one.verdict) for one in island), reverse=True)
        own = [one for one in attempts if one.plan.island == number]
        assert rank(island[0].verdict) >= max(rank(one.verdict) for one in own)
        if config.islands == 1:
            expected = best_first(attempts)[: config.population]
            assert [one.index for one in island] == [one.index for one in expected]


def test_the_best_of_an_island_joins_the_next_one():
    config = EvolveConfig(attempts=8, population=2, children=2, islands=2, migrate_every=1)
    speeds = {0: 9.0}
    attempts, _ = run(
        Evolve(config, read_mutations(None)),
        lambda plan: Verdict("correct", True, True, speedup=speeds.get(plan.index, 1 + plan.index / 10)),
    )
    first, second = survivors_of(config, attempts)
    assert first[0].index == second[0].index == 0


def test_an_evolution_ends_with_a_correct_attempt_where_nothing_is_timed():
    config = EvolveConfig(attempts=20, population=2, children=2)
    wrong, right = Verdict("incorrect", True, False), Verdict("correct", True, True)
    attempts, _ = run(Evolve(config, read_mutations(None)), lambda plan: right if plan.index == 3 else wrong)
    assert len(attempts) == 4


def test_mutations_come_from_a_file_and_are_drawn_by_weight_and_state(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[mutation]]\nname = "a"\ntext = "Do A."\nwhen = "correct"\n'
        '[[mutation]]\nname = "b"\ntext = "Do B."\nwhen = "wrong"\n'
        '[[mutation]]\nname = "c"\ntext = "Do C."\nweight = 3\n'
    )
    found = read_mutations(path)
    rng = random.Random(0)
    counts = Counter(draw(found, rng, correct=True).name for _ in range(4000))
    assert set(counts) == {"a", "c"} and counts["c"] / counts["a"] == pytest.approx(3, rel=0.2)
    assert {draw(found, rng, correct=False).name for _ in range(100)} == {"b", "c"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[[mutation", "is not TOML"),
        ("", "mutation: Field required"),
        ('[[mutation]]\nname = "a"\n', "mutation.0.text: Field required"),
        ('[[mutation]]\nname = "a"\ntext = "x"\nweight = 0\n', "greater than 0"),
        ('[[mutation]]\nname = "a"\ntext = "x"\nwen = "any"\n', "mutation.0.wen"),
        ('[[mutation]]\nname = "a"\ntext = "x"\nwhen = "wrong"\n', "no mutation for correct parents"),
    ],
)
def test_a_file_of_mutations_that_cannot_be_used_is_refused(tmp_path, text, part):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=part):
        read_mutations(path)
    with pytest.raises(UsageError, match="does not exist"):
        read_mutations(tmp_path / "none.toml")


def test_own_mutations_fit_both_states():
    assert isinstance(draw(read_mutations(None), random.Random(0), correct=True), Mutation)


@given(
    tokens=st.none() | st.integers(1, 3000),
    evaluations=st.none() | st.integers(1, 12),
    spent=st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=10),
    prompts=st.lists(st.integers(0, 300), max_size=8),
)
def test_a_round_never_exceeds_a_budget_and_takes_all_that_fits(tokens, evaluations, spent, prompts):
    plans = Independent(max(len(spent), 1)).plan("", [])
    wrong = Verdict("incorrect", True, False)
    attempts = [
        Attempt(plan, made(plan, wrong, f"k{plan.index}" if code else None).turn, used, 0)
        for plan, (used, code) in zip(plans, spent, strict=False)
    ]
    count, ended = Budget(BudgetConfig(tokens=tokens, evaluations=evaluations), 100).affordable(attempts, prompts)
    used, judged = sum(one.tokens for one in attempts), sum(one.evaluated for one in attempts)

    def fits(number):
        needed = sum(prompt + 100 for prompt in prompts[:number])
        enough = tokens is None or number == 0 or used + needed <= tokens
        return enough and (evaluations is None or number == 0 or judged + number <= evaluations)

    assert fits(count)
    assert (ended is None) == (count == len(prompts))
    if ended is not None:
        assert not fits(count + 1)
