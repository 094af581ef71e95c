"""Credit by hand tables, and by the laws that advantages obey."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from warpsmith.trainer.advantage import Critic, Estimator, Normalisation, Samples, Turns, assign, normalise
from warpsmith.trainer.advantage.estimators.final import FinalScore
from warpsmith.trainer.advantage.estimators.gae import Gae
from warpsmith.trainer.advantage.estimators.trajectory import TrajectoryReturn
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.advantage.normalization import BatchScale, GroupScale, NoScale
from warpsmith.trainer.advantage.penalties import shaped

GAMMA = 0.4
SCALES = {"group": GroupScale, "batch": BatchScale, "none": NoScale}
PLAIN = Normalisation(scale=NoScale())


def turns(rows: list[tuple[int, int, int, float | None]]) -> Turns:
    """Rows of (group, trajectory, turn, score); a score of None is an invalid turn. Returns follow from the scores."""
    scores = {(trajectory, turn): score for _, trajectory, turn, score in rows}

    def return_from(trajectory: int, turn: int) -> float:
        total, weight = 0.0, 1.0
        while (trajectory, turn) in scores:
            score = scores[trajectory, turn]
            if score is None:
                return float("nan")
            total, weight, turn = total + weight * score, weight * GAMMA, turn + 1
        return total

    return Turns(
        group=np.array([row[0] for row in rows]),
        trajectory=np.array([row[1] for row in rows]),
        turn=np.array([row[2] for row in rows]),
        score=np.array([np.nan if row[3] is None else row[3] for row in rows]),
        returns=np.array([return_from(row[1], row[2]) for row in rows]),
        valid=np.array([row[3] is not None for row in rows]),
    )


TWO_BY_TWO = turns([(0, 0, 0, 0.0), (0, 0, 1, 1.0), (0, 1, 0, 0.1), (0, 1, 1, 0.3)])
"""Returns: trajectory 0 has R = 0.4, 1.0; trajectory 1 has R = 0.22, 0.3."""


def test_turn_credit_compares_the_same_turn_of_a_group() -> None:
    credit = assign(TWO_BY_TWO, TurnReturn(), PLAIN)
    assert credit.advantage == pytest.approx([0.09, 0.35, -0.09, -0.35])
    assert (credit.groups, credit.flat_groups) == (2, 0)
    assert credit.members.tolist() == [2, 2, 2, 2]


GENERATOR, OPTIMIZER = 0, 1


def with_agents(rows: list[tuple[int, int, int, float | None, int]], handover_gamma: float = 0.0) -> Turns:
    """Rows of (group, trajectory, turn, score, agent), with the returns of each agent's own turns."""
    bare = replace(turns([row[:4] for row in rows]), agent=np.array([row[4] for row in rows]))
    return replace(shaped(bare, np.zeros(len(rows)), GAMMA, handover_gamma), penalty=None)


PAIRS = [
    (0, 0, 0, 0.3, GENERATOR), (0, 0, 1, 1.0, OPTIMIZER),
    (0, 1, 0, 0.1, GENERATOR), (0, 1, 1, 0.3, GENERATOR), (0, 1, 2, 0.0, OPTIMIZER), (0, 1, 3, 3.0, OPTIMIZER),
]  # fmt: skip
"""Two trajectories: the second needs two turns for a correct kernel, and optimizes it twice."""


def test_turns_of_two_agents_are_never_compared_and_an_agents_turns_are_counted_from_its_first() -> None:
    both = with_agents(PAIRS)
    assert both.returns == pytest.approx([0.3, 1.0, 0.1 + 0.4 * 0.3, 0.3, 0.4 * 3.0, 3.0])
    credit = assign(both, TurnReturn(), PLAIN)
    # Generator's turn 1: 0.3 and 0.22; its turn 2 is alone. Optimizer's turn 1: 1.0 and 1.2; its turn 2 is alone.
    assert credit.advantage == pytest.approx([0.04, -0.1, -0.04, 0.0, 0.1, 0.0])
    assert credit.members.tolist() == [2, 2, 2, 1, 2, 1]
    assert (credit.groups, credit.flat_groups) == (4, 2)


def test_trajectory_and_final_credit_are_those_of_the_agents_own_turns() -> None:
    both = with_agents(PAIRS)
    first = assign(both, TrajectoryReturn(), PLAIN)
    assert first.advantage == pytest.approx([0.04, -0.1, -0.04, -0.04, 0.1, 0.1])
    last = assign(both, FinalScore(), PLAIN)
    assert last.advantage == pytest.approx([0.0, -1.0, 0.0, 0.0, 1.0, 1.0])
    assert (first.groups, last.groups) == (2, 2)


def test_advantage_estimation_ends_an_agents_process_with_its_last_turn() -> None:
    critic = Critic(np.full(len(PAIRS), 0.5), GAMMA)
    alone = [row for row in PAIRS if row[4] == GENERATOR]
    of_all = Gae().samples(with_agents(PAIRS), critic)
    of_generator = Gae().samples(with_agents(alone), Critic(np.full(len(alone), 0.5), GAMMA))
    assert of_all.value[[0, 2, 3]].tolist() == of_generator.value.tolist()
    assert of_all.group.tolist() == [row[4] for row in PAIRS]
    coupled = Gae().samples(with_agents(PAIRS), replace(critic, handover_gamma=GAMMA))
    assert coupled.value[0] > of_all.value[0]


def test_a_handover_couples_the_generator_to_what_the_optimizer_made_of_its_kernel() -> None:
    coupled = with_agents(PAIRS, handover_gamma=0.5)
    assert coupled.returns[[0, 3]] == pytest.approx([0.3 + 0.5 * 1.0, 0.3 + 0.5 * 1.2])
    assert coupled.returns[[1, 4, 5]] == pytest.approx([1.0, 1.2, 3.0])


def test_trajectory_credit_gives_every_turn_the_first_return() -> None:
    credit = assign(TWO_BY_TWO, TrajectoryReturn(), PLAIN)
    assert credit.advantage == pytest.approx([0.09, 0.09, -0.09, -0.09])
    assert credit.groups == 1


def test_final_credit_gives_every_turn_the_last_score() -> None:
    assert assign(TWO_BY_TWO, FinalScore(), PLAIN).advantage == pytest.approx([0.35, 0.35, -0.35, -0.35])


def test_a_trajectory_counts_once_whatever_its_length() -> None:
    uneven = turns([(0, 0, 0, 0.0), (0, 0, 1, 0.0), (0, 0, 2, 0.0), (0, 1, 0, 1.0)])
    credit = assign(uneven, TrajectoryReturn(), PLAIN)
    assert credit.advantage == pytest.approx([-0.5, -0.5, -0.5, 0.5])
    assert credit.members.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("deviation", "expected"), [("population", [-1.0, 1.0]), ("sample", [-np.sqrt(0.5), np.sqrt(0.5)])]
)
def test_group_scale_divides_by_the_deviation(deviation: str, expected: list[float]) -> None:
    pair = turns([(0, 0, 0, 0.1), (0, 1, 0, 0.3)])
    credit = assign(pair, TurnReturn(), Normalisation(scale=GroupScale(deviation=deviation)))  # type: ignore[arg-type]
    assert credit.advantage == pytest.approx(expected)


def test_batch_scale_divides_by_one_deviation_for_all_groups() -> None:
    two = turns([(0, 0, 0, 0.0), (0, 1, 0, 2.0), (1, 2, 0, 0.0), (1, 3, 0, 4.0)])
    credit = assign(two, TurnReturn(), Normalisation(scale=BatchScale()))
    assert credit.advantage == pytest.approx(np.array([-1, 1, -2, 2]) / np.sqrt(2.5))


def test_leave_one_out_compares_with_the_mean_of_the_others() -> None:
    three = turns([(0, 0, 0, 0.0), (0, 1, 0, 1.0), (0, 2, 0, 5.0)])
    credit = assign(three, TurnReturn(), Normalisation(baseline="leave_one_out", scale=NoScale()))
    assert credit.advantage == pytest.approx([0.0 - 3.0, 1.0 - 2.5, 5.0 - 0.5])


def test_invalid_turns_leave_the_baseline() -> None:
    with_invalid = turns([(0, 0, 0, 0.0), (0, 1, 0, 1.0), (0, 2, 0, None)])
    credit = assign(with_invalid, TurnReturn(), PLAIN)
    assert credit.advantage == pytest.approx([-0.5, 0.5, 0.0])
    assert credit.counted.tolist() == [True, True, False]
    assert credit.members.tolist() == [2, 2, 0]


def test_an_invalid_last_turn_makes_earlier_returns_unknown() -> None:
    broken = turns([(0, 0, 0, 0.1), (0, 0, 1, None), (0, 1, 0, 0.3), (0, 2, 0, 0.5)])
    assert assign(broken, TurnReturn(), PLAIN).counted.tolist() == [False, False, True, True]
    assert assign(broken, TrajectoryReturn(), PLAIN).counted.tolist() == [False, False, True, True]


def test_final_credit_needs_only_the_last_turn() -> None:
    broken = turns([(0, 0, 0, None), (0, 0, 1, 1.0), (0, 1, 0, 0.0)])
    assert assign(broken, FinalScore(), PLAIN).advantage == pytest.approx([0.0, 0.5, -0.5])


def test_final_credit_takes_off_what_every_turn_of_the_trajectory_lost() -> None:
    once = shaped(TWO_BY_TWO, np.array([0.5, 0.0, 0.0, 0.2]), GAMMA)
    # Last scores 1.0 - 0.5 and 0.3 - 0.2, and then 0.1 less for the first turn of the second.
    assert assign(once, FinalScore(), PLAIN).advantage == pytest.approx([0.2, 0.2, -0.2, -0.2])
    twice = shaped(once, np.array([0.0, 0.0, 0.1, 0.0]), GAMMA)
    assert assign(twice, FinalScore(), PLAIN).advantage == pytest.approx([0.25, 0.25, -0.25, -0.25])


def test_a_turn_without_a_score_takes_nothing_off_the_last_one() -> None:
    broken = turns([(0, 0, 0, None), (0, 0, 1, 1.0), (0, 1, 0, 0.0)])
    lost = shaped(broken, np.array([9.0, 0.0, 0.0]), GAMMA)
    assert assign(lost, FinalScore(), PLAIN).advantage == pytest.approx([0.0, 0.5, -0.5])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("scores", [[0.3], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3]])
def test_groups_of_one_or_of_no_spread_give_zero_and_are_counted(scale: str, scores: list[float]) -> None:
    flat = turns([(0, i, 0, score) for i, score in enumerate(scores)])
    credit = assign(flat, TurnReturn(), Normalisation(scale=SCALES[scale]()))
    assert not credit.advantage.any()
    assert (credit.groups, credit.flat_groups) == (1, 1)
    assert credit.counted.all()


def test_an_empty_batch_has_no_credit() -> None:
    for estimator in (TurnReturn(), TrajectoryReturn(), FinalScore()):
        credit = assign(turns([]), estimator, Normalisation())
        assert len(credit.advantage) == 0
        assert credit.groups == 0


rounded = st.floats(-3, 3).map(lambda value: round(value, 3))
lengths = st.lists(st.lists(st.none() | rounded, min_size=1, max_size=4), min_size=1, max_size=6)


@given(lengths, st.integers(1, 3), st.sampled_from([TurnReturn(), TrajectoryReturn(), FinalScore(), Gae()]), st.data())
def test_with_one_agent_credit_is_exactly_that_without_agents(
    scores: list[list[float | None]], groups: int, estimator: Estimator, data: st.DataObject
) -> None:
    rows = [(i % groups, i, turn, score) for i, own in enumerate(scores) for turn, score in enumerate(own)]
    order = data.draw(st.permutations(rows))
    plain = turns(order)
    penalty = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows))))
    values = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=len(rows), max_size=len(rows))))
    critic = Critic(values, GAMMA, handover_gamma=0.7) if estimator.has_value_head else None
    one = replace(plain, agent=np.zeros(len(rows), np.int64))
    for before, after in ((plain, one), (shaped(plain, penalty, GAMMA), shaped(one, penalty, GAMMA, 0.7))):
        expected, found = (assign(given, estimator, Normalisation(), critic) for given in (before, after))
        assert found.advantage.tolist() == expected.advantage.tolist()
        assert found.members.tolist() == expected.members.tolist()
        assert (found.groups, found.flat_groups) == (expected.groups, expected.flat_groups)


ways_of_groups = st.builds(
    Normalisation,
    baseline=st.sampled_from(["mean", "leave_one_out"]),
    scale=st.sampled_from([GroupScale(), GroupScale(deviation="sample"), NoScale()]),
)
agents_of = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), rounded, rounded), min_size=1, max_size=6)


@given(agents_of, st.integers(1, 3), st.sampled_from([TurnReturn(), TrajectoryReturn(), FinalScore()]), ways_of_groups)
def test_an_agents_credit_is_that_of_a_batch_of_its_turns_alone(
    episodes: list[tuple[int, int, float, float]], groups: int, estimator: Estimator, how: Normalisation
) -> None:
    rows = [
        (i % groups, i, turn, made if turn < first else gained, GENERATOR if turn < first else OPTIMIZER)
        for i, (first, second, made, gained) in enumerate(episodes)
        for turn in range(first + second)
    ]
    both = assign(with_agents(rows), estimator, how)
    for agent in (GENERATOR, OPTIMIZER):
        own = [row for row in rows if row[4] == agent]
        begins = {row[1]: min(other[2] for other in own if other[1] == row[1]) for row in own}
        alone = turns([(group, i, turn - begins[i], score) for group, i, turn, score, _ in own])
        expected = assign(alone, estimator, how)
        mine = [place for place, row in enumerate(rows) if row[4] == agent]
        assert both.advantage[mine].tolist() == pytest.approx(expected.advantage.tolist(), abs=1e-12)


batches = st.lists(st.tuples(st.integers(0, 3), rounded), min_size=2, max_size=24)
baselines = st.sampled_from(["mean", "leave_one_out"])
deviations = st.sampled_from(["population", "sample"])
scales = st.one_of(
    st.builds(GroupScale, deviation=deviations), st.builds(BatchScale, deviation=deviations), st.just(NoScale())
)
ways = st.builds(Normalisation, baseline=baselines, scale=scales)


def samples(batch: list[tuple[int, float]]) -> Samples:
    return Samples(
        value=np.array([value for _, value in batch]),
        group=np.array([group for group, _ in batch]),
        unit=np.arange(len(batch)),
    )


@given(batches, ways, st.floats(-5, 5))
def test_adding_a_constant_to_all_values_changes_nothing(
    batch: list[tuple[int, float]], how: Normalisation, constant: float
) -> None:
    moved = [(group, value + constant) for group, value in batch]
    before, after = normalise(samples(batch), how), normalise(samples(moved), how)
    assert after.advantage == pytest.approx(before.advantage, abs=1e-6)


@given(batches, ways, st.floats(0.01, 100))
def test_scaled_values_scale_unscaled_advantages_only(
    batch: list[tuple[int, float]], how: Normalisation, factor: float
) -> None:
    larger = [(group, value * factor) for group, value in batch]
    before, after = normalise(samples(batch), how), normalise(samples(larger), how)
    expected = before.advantage * (factor if isinstance(how.scale, NoScale) else 1.0)
    assert after.advantage == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(batches, ways, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(batch: list[tuple[int, float]], how: Normalisation, rng) -> None:
    order = list(range(len(batch)))
    rng.shuffle(order)
    shuffled = normalise(samples([batch[i] for i in order]), how)
    assert shuffled.advantage == pytest.approx(normalise(samples(batch), how).advantage[order], abs=1e-9)


@given(batches, ways)
def test_advantages_of_a_group_add_up_to_nothing(batch: list[tuple[int, float]], how: Normalisation) -> None:
    credit = normalise(samples(batch), how)
    groups = np.array([group for group, _ in batch])
    for group in np.unique(groups):
        assert credit.advantage[groups == group].sum() == pytest.approx(0, abs=1e-6)


@given(batches)
def test_group_scaled_advantages_have_deviation_one(batch: list[tuple[int, float]]) -> None:
    credit = normalise(samples(batch), Normalisation())
    groups = np.array([group for group, _ in batch])
    values = np.array([value for _, value in batch])
    spread = [g for g in np.unique(groups) if np.ptp(values[groups == g]) > 0]
    assume(spread)
    for group in spread:
        assert credit.advantage[groups == group].std() == pytest.approx(1, rel=1e-6)


@given(batches, ways)
def test_a_larger_value_never_has_a_smaller_advantage(batch: list[tuple[int, float]], how: Normalisation) -> None:
    credit = normalise(samples(batch), how)
    for (g1, v1), a1 in zip(batch, credit.advantage, strict=True):
        for (g2, v2), a2 in zip(batch, credit.advantage, strict=True):
            assert g1 != g2 or v1 <= v2 or a1 >= a2 - 1e-12
