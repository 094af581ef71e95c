"""What is asked of the workers that are timed, and what figure comes of it."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Figures, Side, Timing, interval

SETS = 4


class Timed:
    """A worker whose calls take `call_ms` by its events and `true_ms` by the clock that it moves.

    Around each call of a graph lies `around_ms`, around each message `message_ms`; all of it varies by `noise`.
    """

    def __init__(
        self, call_ms=0.5, true_ms=None, around_ms=0.2, message_ms=3.0, noise=0.0, captures=True, gated=True, sets=SETS
    ):
        self.call_ms, self.true_ms = call_ms, call_ms if true_ms is None else true_ms
        self.around_ms, self.message_ms, self.noise = around_ms, message_ms, noise
        self.captures, self.gated, self.sets = captures, gated, sets
        self.asked: list[dict] = []
        self.now = 0.0
        self._rng = random.Random(0)

    def clock(self):
        return self.now

    def ask(self, fields):
        self.asked.append(fields)
        self._pass(self.message_ms)
        if fields["mode"] == "call":
            for _ in fields["order"]:
                self._pass(self.true_ms + self.around_ms)
            times = [self._varied(self.call_ms) for _ in fields["order"]]
            return codec.Fields({"milliseconds": times, "gated": self.gated})
        calls = fields["walks"] * self.sets
        for _ in range(fields["count"] * calls if self.captures else 0):
            self._pass(self.around_ms + (self.true_ms if fields["mode"] == "graph" else 0.0))
        return codec.Fields({"captured": self.captures, "calls": calls})

    def _varied(self, ms):
        return ms * (1 + self.noise * self._rng.random())

    def _pass(self, ms):
        self.now += self._varied(ms) / 1000

    def side(self, kept=None, sets=SETS, **options):
        return Side(self.ask, sets, random.Random(1), self.clock, kept, **options)

    def of_mode(self, mode):
        return [fields for fields in self.asked if fields["mode"] == mode]


def measure(candidate, reference, count, look):
    """Measure as an evaluation does."""
    clocks.make_ready(candidate, reference)
    return clocks.measure(candidate, reference, count, look)


# --- the median's interval ---


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=200))
def test_the_median_lies_in_its_interval(values):
    low, high = interval(values)
    assert low <= clocks.median(values) <= high
    assert {low, high} <= set(values)


def binomial(count, first, last):
    """The probability that of `count` tosses from `first` to `last` are heads."""
    return sum(math.comb(count, heads) for heads in range(first, last + 1)) / 2**count


@pytest.mark.parametrize("counts", [range(6, 200), range(200, 1001, 67)])
def test_the_interval_covers_the_median_in_19_cases_of_20(counts):
    for count in counts:
        low, high = (int(end) for end in interval(range(count)))
        assert binomial(count, low + 1, high) >= 0.95, count
        assert low + high == count - 1
        # One order statistic further in at both ends is too narrow, or the approximation gives one away.
        assert binomial(count, low + 3, high - 2) < 0.95, count


def test_few_values_are_all_that_is_known():
    assert interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert interval([7.0]) == (7.0, 7.0)


# --- what a side asks for ---


@given(st.integers(1, 8), st.integers(1, 50), st.integers(0, 10), st.integers(0, 1 << 30))
def test_places_are_of_sets_that_differ(sets, count, looks, seed):
    worker = Timed(sets=sets)
    chosen = Side(worker.ask, sets, random.Random(seed)).calls(count, looks)
    (asked,) = worker.asked
    order, places = asked["order"], asked["deliver"]
    assert chosen == [order[place] for place in places]
    assert places == sorted(set(places))
    assert len(set(chosen)) == len(chosen) == min(looks, len(set(order)))


@given(st.integers(1, 8), st.integers(1, 50), st.integers(0, 1 << 30))
def test_every_set_comes_as_often_as_any_other(sets, count, seed):
    worker = Timed(sets=sets)
    Side(worker.ask, sets, random.Random(seed)).calls(count)
    order = worker.asked[0]["order"]
    often = [order.count(number) for number in range(sets)]
    assert len(order) == sum(often) == count
    assert max(often) - min(often) <= 1


def test_orders_and_places_cannot_be_foreseen():
    worker = Timed()
    side = worker.side(sets=8)
    for _ in range(20):
        side.calls(8, 2)
    assert len({tuple(fields["order"]) for fields in worker.asked}) > 10
    assert len({tuple(fields["deliver"]) for fields in worker.asked}) > 5


def test_what_is_delivered_is_reported_by_set():
    worker = Timed()
    delivered = worker.side().calls(10, 3)
    (asked,) = worker.asked
    assert delivered == [asked["order"][place] for place in asked["deliver"]]
    assert len(set(delivered)) == 3


class Fenced(Timed):
    """A worker whose fenced calls take a thousand times as long by its events."""

    def ask(self, fields):
        answer = super().ask(fields)
        if fields["mode"] != "call":
            return answer
        times = [
            ms * (1000 if place in fields["fenced"] else 1) for place, ms in enumerate(answer.sequence("milliseconds"))
        ]
        return codec.Fields({"milliseconds": times, "gated": True})


@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 4), st.integers(0, 4), st.integers(0, 1 << 30))
def test_fenced_calls_are_looked_at_and_do_not_count(sets, count, looks, fenced, seed):
    worker = Fenced(sets=sets)
    side = Side(worker.ask, sets, random.Random(seed))
    delivered = side.calls(count, looks, fenced=fenced)
    (asked,) = worker.asked
    assert set(asked["fenced"]) <= set(asked["deliver"])
    assert len(asked["fenced"]) <= fenced
    assert len(asked["order"]) == count + fenced
    assert set(side.times) == {0.5}
    assert len(side.times) == count + fenced - len(asked["fenced"])
    assert len(delivered) == min(looks + fenced, len(set(asked["order"])))
    if fenced and sets > 1:
        assert len(asked["fenced"]) < len(asked["deliver"]) or len(set(asked["order"])) == 1 or not looks


def test_an_only_set_is_sometimes_looked_at_fenced_and_sometimes_not():
    worker = Fenced(sets=1)
    side = Side(worker.ask, 1, random.Random(3))
    for _ in range(40):
        side.calls(3, 2, fenced=1)
    assert {len(asked["fenced"]) for asked in worker.asked} == {0, 1}
    assert all(len(asked["deliver"]) == 1 for asked in worker.asked)


def test_the_candidate_alone_is_fenced_in_calls_and_in_a_graph_of_its_own():
    candidate, reference = Fenced(call_ms=0.1), Fenced(call_ms=0.1)
    side = candidate.side()
    side.fences = True
    looked = []
    measured = measure(side, reference.side(), 100, looked.append)
    fenced = [asked["fenced"] for asked in candidate.of_mode("call")]
    assert sum(map(len, fenced)) == clocks.FENCED_CALLS
    captured, replayed = candidate.of_mode("fenced_graph")
    assert (captured["count"], replayed["count"]) == (0, 1)
    assert captured["fenced"] == replayed["fenced"] == list(range(SETS))
    assert range(SETS) in looked
    assert not any(asked["fenced"] for asked in reference.asked)
    assert measured.candidate.judge_ms == pytest.approx(0.1, rel=0.01)
    assert measured.candidate.events_ms == pytest.approx(0.1, rel=0.01)


def test_of_long_calls_few_are_fenced():
    worker = Fenced(call_ms=20.0)
    side = worker.side()
    side.fences = True
    measure(side, Timed().side(), 20, lambda sets: None)
    assert sum(len(asked["fenced"]) for asked in worker.of_mode("call")) == 1
    assert all(len(asked["fenced"]) == 1 for asked in worker.of_mode("fenced_graph"))


def test_calls_that_do_not_count_are_not_kept():
    side = Timed().side()
    side.calls(5, counted=False)
    assert side.times == []
    side.calls(5)
    assert side.times == [0.5] * 5


def test_a_gate_that_opened_once_is_remembered():
    worker = Timed()
    side = worker.side()
    for worker.gated in (True, False, True):
        side.calls(3)
    assert not side.figures(None).gated


@pytest.mark.parametrize(("call_ms", "calls"), [(0.5, 100), (1.5, 100), (5.0, 30), (50.0, clocks.LEAST_CALLS)])
def test_a_slow_reference_is_called_less_often_and_the_candidate_is_not(call_ms, calls):
    found = measure(Timed(call_ms).side(), Timed(call_ms).side(), 100, lambda sets: None)
    assert (found.candidate.calls, found.reference.calls) == (100, calls)


@pytest.mark.parametrize(
    ("call_ms", "sets", "asked"),
    [(0.1, 8, [8, 16]), (0.1, 1, [3, 2]), (5.0, 8, [8]), (5.0, 1, [3])],
)
def test_long_calls_warm_up_in_fewer(call_ms, sets, asked):
    worker = Timed(call_ms)
    side = worker.side(sets=sets)
    side.prepare()
    assert [len(fields["order"]) for fields in worker.of_mode("call")] == asked
    assert (side.estimate_ms, side.times) == (call_ms, [])


# --- the judge's clock ---


@given(st.floats(0.001, 5.0), st.floats(0.0, 0.5), st.floats(0.0, 20.0))
@settings(deadline=None)
def test_the_slope_is_the_time_of_a_call_whatever_stands_around_it(true_ms, around_ms, message_ms):
    side = Timed(true_ms=true_ms, around_ms=around_ms, message_ms=message_ms).side()
    for mode, count in itertools.product(("graph", "empty_graph"), (1, 9)):
        side.graph(mode, count, 2)
    assert side.judged(1, 9) == pytest.approx(true_ms, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("true_ms", [0.005, 0.08, 2.0])
def test_the_judged_time_stands_noise(true_ms):
    worker = Timed(call_ms=true_ms, around_ms=0.004, noise=0.02)
    found = measure(worker.side(), Timed().side(), 40, lambda sets: None)
    # Noise only slows down, by 1 % on average.
    assert found.candidate.judge_ms == pytest.approx(true_ms, rel=0.05)


def test_more_around_the_calls_than_in_them_is_no_negative_time():
    side = Timed().side()
    side.per_graph = 1
    side.walls = {("graph", 1): [1.0], ("graph", 3): [2.0], ("empty_graph", 1): [1.0], ("empty_graph", 3): [9.0]}
    assert side.judged(1, 3) == 0.0


# --- measuring ---


def test_both_sides_are_timed_as_often_as_asked_for():
    candidate, reference = Timed(0.5), Timed(0.7)
    found = measure(candidate.side(), reference.side(), 41, lambda sets: None)
    assert (found.candidate.calls, found.reference.calls) == (41, 41)
    assert (found.candidate.events_ms, found.reference.events_ms) == (0.5, 0.7)
    assert found.candidate.judge_ms == pytest.approx(0.5)
    assert found.reference.judge_ms == pytest.approx(0.7)


@pytest.mark.parametrize(("call_ms", "repeats"), [(0.1, clocks.REPEATS), (1.0, 1)])
def test_what_the_candidate_delivers_is_looked_at_in_every_segment_and_after_graphs(call_ms, repeats):
    looks = []
    candidate, reference = Timed(call_ms), Timed()
    measure(candidate.side(), reference.side(), 40, lambda sets: looks.append(list(sets)))
    segments, graphs = looks[:-repeats], looks[-repeats:]
    assert len(segments) == clocks.SEGMENTS
    assert all(len(set(sets)) == clocks.LOOKS for sets in segments)
    assert graphs == [list(range(SETS))] * repeats
    assert not any(fields["deliver"] for fields in reference.asked)


@pytest.mark.parametrize(
    ("call_ms", "place"), [(1.0, 1), (1.0, 2), (1.0, 3), *((0.004, place) for place in range(1, 9))]
)
def test_what_holds_the_host_up_once_is_not_held_against_a_kernel(call_ms, place):
    """Half a second, in any one of the messages on graphs that follow the capture."""
    worker = Timed(call_ms, around_ms=0.002, message_ms=0.15)

    def ask(fields):
        if fields["mode"] == "graph" and len(worker.of_mode("graph")) == place:
            worker.now += 0.5
        return worker.ask(fields)

    side = Side(ask, SETS, random.Random(1), worker.clock)
    found = measure(side, Timed(1.0).side(), 40, lambda sets: None)
    assert len(worker.of_mode("graph")) > place
    assert found.candidate.judge_ms == pytest.approx(call_ms)
    assert not found.disagrees
    # Enough replays are made for the judge's clock, and not far more.
    most = max(fields["count"] for fields in worker.of_mode("graph"))
    replay_ms = side.per_graph * (call_ms + 0.002)
    assert 0.4 * clocks.WORTH_MS < (most - 1) * replay_ms < max(4 * clocks.WORTH_MS, 8 * replay_ms)


def test_what_takes_longer_after_each_look_is_not_held_against_a_kernel():
    """Two milliseconds: in the first round of the clock's, by chance, and then in each that follows a look."""
    worker = Timed(3.0, around_ms=2.0, message_ms=0.15, sets=1)
    late = []

    def ask(fields):
        if late or (fields["mode"] == "empty_graph" and len(worker.of_mode("empty_graph")) == 1):
            worker.now += 0.002
            late.clear()
        return worker.ask(fields)

    side = Side(ask, 1, random.Random(1), worker.clock)
    found = measure(side, Timed(1.0).side(), 40, late.append)
    assert len(worker.of_mode("empty_graph")) > 3, "the first repetition made the clocks disagree"
    assert found.candidate.judge_ms == pytest.approx(3.0)
    assert not found.disagrees


@pytest.mark.parametrize(("call_ms", "around_ms", "probes"), [(3.0, 7.0, [1]), (0.1, 1.0, [1, 8, 1, 8])])
def test_of_long_calls_one_replay_says_how_many_are_made(call_ms, around_ms, probes):
    """What stands around calls that write gigabytes takes longer than they do, so a replay is no multiple of them."""
    worker = Timed(call_ms, around_ms=around_ms, message_ms=0.15)
    found = measure(worker.side(), Timed().side(), 40, lambda sets: None)
    after_capture = [fields["count"] for fields in worker.of_mode("graph")][1:]
    assert after_capture[: len(probes)] == probes
    assert len(after_capture) == len(probes) + 2 * (1 if call_ms >= clocks.LONG_MS else clocks.REPEATS)
    assert found.candidate.judge_ms == pytest.approx(call_ms)


@pytest.mark.parametrize("message_ms", [0.15, 500.0])
def test_calls_that_were_slow_at_first_are_replayed_often_enough(message_ms):
    """One set of inputs, calls of 3 ms until they count and of 0.6 ms from then on; the host may be held up."""
    for seed in range(8):
        worker = Timed(3.0, around_ms=0.01, message_ms=message_ms, sets=1)
        side = Side(worker.ask, 1, random.Random(seed), worker.clock)
        clocks.make_ready(side, Timed().side())
        worker.call_ms = worker.true_ms = 0.6
        side.calls(40)
        assert clocks.judge_side(side, None) == pytest.approx(0.6)
        most = max(fields["count"] for fields in worker.of_mode("graph"))
        assert (side.walks, side.estimate_ms) == (1, 3.0)
        assert (most - 1) * 0.6 >= 2.0


def test_a_short_call_that_seems_to_take_nothing_is_asked_for_again_and_takes_what_any_call_does():
    looks = []
    worker = Timed(0.015, true_ms=0.0, around_ms=0.004, message_ms=0.15)
    side = Side(worker.ask, 4, random.Random(0), worker.clock, least_ms=0.0005)
    found = measure(side, Timed().side(), 40, looks.append)
    assert (found.candidate.judge_ms, found.runtime_ms) == (0.0005, 0.0005)
    assert len(looks) == clocks.SEGMENTS + clocks.MOST_REPEATS


def test_clocks_that_disagree_are_asked_again_some_times():
    looks = []
    found = measure(Timed(0.5, true_ms=1.0).side(), Timed(0.5).side(), 40, looks.append)
    assert found.disagrees
    assert found.runtime_ms == pytest.approx(1.0)
    assert len(looks) == clocks.SEGMENTS + clocks.MOST_REPEATS


def test_where_the_judges_clock_counts_for_the_candidate_it_counts_for_the_reference():
    """A device that is slowed down for its power runs both sides slower in graphs."""
    both = Timing(figures(0.5, 1.0), figures(0.4, 0.41))
    assert (both.runtime_ms, both.reference_ms) == (1.0, 0.41)
    assert Timing(figures(0.5, 1.0), figures(0.4, None)).reference_ms == 0.4
    assert Timing(figures(0.5, 0.5), figures(0.4, 0.41)).reference_ms == 0.4


def test_answers_of_graphs_are_looked_at_after_replays_of_the_calls():
    """The graph without the calls delivers as well: what it left must not be taken for an answer."""
    candidate, last = Timed(0.1), []
    measure(candidate.side(), Timed().side(), 40, lambda sets: last.append(candidate.asked[-1]))
    assert [fields["mode"] for fields in last] == ["call"] * clocks.SEGMENTS + ["graph"] * clocks.REPEATS
    assert all(fields["count"] > 1 for fields in last[clocks.SEGMENTS :])


def test_the_longer_replays_are_long_enough_and_their_count_cannot_be_foreseen():
    counts = set()
    for seed in range(8):
        worker = Timed(0.01, around_ms=0.002)
        side = Side(worker.ask, SETS, random.Random(seed), worker.clock)
        measure(side, Timed().side(), 40, lambda sets: None)
        many = max(worker.of_mode("graph"), key=lambda fields: fields["count"])
        replay_ms = many["walks"] * SETS * (worker.call_ms + worker.around_ms)
        assert (many["count"] - 1) * replay_ms >= clocks.WORTH_MS
        counts.add(many["count"])
    assert len(counts) > 2


@pytest.mark.parametrize("captured", ["candidate", "reference"])
def test_a_side_that_cannot_be_captured_has_no_judged_time(captured):
    looks = []
    candidate, reference = (Timed(0.1, captures=name == captured) for name in ("candidate", "reference"))
    found = measure(candidate.side(), reference.side(), 40, looks.append)
    assert (found.candidate.judge_ms is None) == (captured != "candidate")
    assert (found.reference.judge_ms is None) == (captured != "reference")
    assert found.tier == ("two_clocks" if captured == "candidate" else "events")
    assert len(looks) == clocks.SEGMENTS + (clocks.REPEATS if captured == "candidate" else 0)


def test_an_empty_graph_that_cannot_be_captured_is_no_measure():
    worker = Timed()

    def ask(fields):
        worker.captures = fields["mode"] != "empty_graph"
        return worker.ask(fields)

    found = measure(Side(ask, SETS, random.Random(1), worker.clock), Timed().side(), 40, lambda sets: None)
    assert found.candidate.judge_ms is None


# --- what is kept of a reference ---


class Known:
    """A reference that is measured again and again, each time by a side that knows what the last one kept."""

    def __init__(self, worker):
        self.worker, self.kept = worker, None

    def measured(self, candidate=None):
        """Return the timing and whether graphs of the reference were asked for."""
        self.worker.asked.clear()
        side = self.worker.side(self.kept)
        found = measure((candidate or Timed()).side(), side, 40, lambda sets: None)
        self.kept = side.cached
        return found, bool(self.worker.of_mode("graph"))


@pytest.fixture
def known():
    """A reference that was measured twice, and took 0.5 ms."""
    reference = Known(Timed(0.5))
    assert [reference.measured()[1] for _ in range(2)] == [True, True]
    return reference


def test_a_reference_that_took_the_same_twice_needs_no_graphs_again(known):
    known.worker.call_ms *= 1.01
    found, asked = known.measured()
    assert not asked
    assert found.reference.judge_ms == pytest.approx(0.5)
    assert found.reference.events_ms == pytest.approx(0.505)
    assert found.reference.calls == 40


@pytest.mark.parametrize("change", [("call_ms", 0.515), ("call_ms", 0.485), ("now", clocks.CACHED_S)])
def test_a_reference_that_drifted_or_was_timed_long_ago_is_judged_anew(known, change):
    name, value = change
    setattr(known.worker, name, value + (known.worker.now if name == "now" else 0))
    assert known.measured()[1]
    assert known.measured()[1]
    assert not known.measured()[1]


@pytest.mark.parametrize(("call_ms", "disturbed_ms"), [(0.5, 1.0), (0.02, 0.0235)])
def test_what_disturbs_a_references_graphs_once_is_not_kept(call_ms, disturbed_ms):
    """Of a call that is long the clocks disagree; of a short one they do not, and the next figure does not agree."""
    reference = Known(Timed(call_ms, true_ms=disturbed_ms))
    assert reference.measured()[1]
    reference.worker.true_ms = call_ms
    assert reference.measured()[1]
    assert reference.measured()[1]
    found, asked = reference.measured()
    assert not asked
    assert found.reference.judge_ms == pytest.approx(call_ms)


def test_of_two_figures_that_agree_the_lesser_is_kept():
    reference = Known(Timed(0.5, true_ms=0.51))
    reference.measured()
    reference.worker.true_ms = 0.5
    reference.measured()
    reference.worker.true_ms = 0.51
    found, asked = reference.measured()
    assert (found.reference.judge_ms, asked) == (pytest.approx(0.5), False)


def test_where_the_candidates_clocks_disagree_the_reference_is_judged_beside_it(known):
    """What slows the device now slows both, and the quotient stands."""
    known.worker.true_ms = 0.8
    found, asked = known.measured(Timed(0.5, true_ms=0.8))
    assert asked
    assert found.disagrees
    assert (found.runtime_ms, found.reference_ms) == (pytest.approx(0.8), pytest.approx(0.8))


def test_of_a_reference_without_graphs_nothing_is_kept():
    reference = Known(Timed(0.5, captures=False))
    assert reference.measured()[0].reference.judge_ms is None
    assert reference.kept is None


# --- the figure that is rewarded ---


def figures(events_ms, judge_ms):
    return Figures(events_ms, events_ms, events_ms, judge_ms, True, 100)


@pytest.mark.parametrize(
    ("events_ms", "judge_ms", "slower_ms"),
    [
        (1.0, None, 1.0),
        (1.0, 0.2, 1.0),
        (1.0, 1.0, 1.0),
        (1.0, 1.05, 1.0),
        (1.0, 1.06, 1.06),
        (1.0, 9.0, 9.0),
        (0.01, 0.013, 0.01),
        (0.01, 0.014, 0.014),
    ],
)
def test_the_slower_clock_counts_where_launches_do_not_explain_it(events_ms, judge_ms, slower_ms):
    assert figures(events_ms, judge_ms).slower_ms == slower_ms


def test_without_a_gate_the_judges_clock_counts_for_a_reference_and_the_slower_one_for_a_candidate():
    """Host time between two events makes a reference slow, and whatever is compared to it fast."""
    ungated, unjudged = (Figures(1.0, 1.0, 1.0, judge_ms, gated=False, calls=100) for judge_ms in (0.4, None))
    assert Timing(figures(0.5, 0.5), ungated).reference_ms == ungated.alone_ms == 0.4
    assert Timing(figures(0.5, 0.5), unjudged).reference_ms == unjudged.alone_ms == 1.0
    assert Timing(ungated, figures(2.0, 2.0)).runtime_ms == 1.0


def test_a_gate_that_opened_before_the_timed_calls_is_forgotten():
    worker = Timed(gated=False)
    candidate, reference = worker.side(), Timed().side()
    clocks.make_ready(candidate, reference)
    worker.gated = True
    assert clocks.measure(candidate, reference, 40, lambda sets: None).candidate.gated


def test_of_a_reference_whose_time_is_known_graphs_are_captured_only_when_needed(known):
    ready = known.worker.side(known.kept)
    known.worker.asked.clear()
    clocks.make_ready(Timed().side(), ready)
    assert not known.worker.of_mode("graph")
    known.worker.now += clocks.CACHED_S + 1
    clocks.make_ready(Timed().side(), known.worker.side(known.kept))
    assert known.worker.of_mode("graph")


@pytest.mark.parametrize(
    ("candidate", "reference", "tier", "runtime_ms", "reference_ms", "disagrees"),
    [
        ((1.0, 1.0), (2.0, 2.0), "two_clocks", 1.0, 2.0, False),
        ((1.0, 1.5), (2.0, 2.0), "two_clocks", 1.5, 2.0, True),
        ((1.0, 1.0), (2.0, 3.0), "two_clocks", 1.0, 3.0, False),
        ((1.0, 1.0), (2.0, None), "two_clocks", 1.0, 2.0, False),
        ((1.0, None), (2.0, 2.0), "events", 1.0, 2.0, False),
        # Below 20 microseconds of either the judge's clock counts, for both.
        ((0.015, 0.01), (2.0, 1.8), "graph", 0.01, 1.8, False),
        ((1.0, 0.9), (0.015, 0.01), "graph", 0.9, 0.01, False),
        ((0.015, 0.9), (2.0, 2.0), "graph", 0.9, 2.0, False),
        ((0.02, 0.01), (2.0, 2.0), "two_clocks", 0.02, 2.0, False),
        ((0.015, 0.01), (2.0, None), "two_clocks", 0.015, 2.0, False),
        ((0.015, None), (2.0, 2.0), "events", 0.015, 2.0, False),
        # Nothing is faster than the clock resolves.
        ((0.015, 0.0), (2.0, 2.0), "graph", 1e-6, 2.0, False),
    ],
)
def test_what_is_rewarded(candidate, reference, tier, runtime_ms, reference_ms, disagrees):
    found = Timing(figures(*candidate), figures(*reference))
    assert (found.tier, found.runtime_ms, found.reference_ms) == (tier, runtime_ms, reference_ms)
    assert found.disagrees == disagrees


# --- sequential timing ---


def counted(worker):
    """The numbers of calls of each segment, without the walks that estimate and warm up."""
    return [len(fields["order"]) - len(fields["fenced"]) for fields in worker.of_mode("call")][-clocks.SEGMENTS :]


def repetitions(worker):
    """How often rounds of few and of many graphs were repeated; another graph without calls is captured before."""
    return (len(worker.of_mode("empty_graph")) - 1) / 2


def test_of_short_calls_later_segments_are_short_and_checked_as_often():
    candidate, reference, looks = Fenced(0.005, around_ms=0.01), Timed(0.3), []
    side = candidate.side(fences=True, sequential=True)
    measured = measure(side, reference.side(sequential=True), 100, looks.append)
    assert measured.tier == "graph"
    assert counted(reference) == [25, *[clocks.CHECKED_CALLS] * 3]
    assert measured.candidate.calls == 25 + 3 * clocks.CHECKED_CALLS + clocks.FENCED_CALLS - sum(
        len(fields["fenced"]) for fields in candidate.of_mode("call")
    )
    segments = [sets for sets in looks if not isinstance(sets, range)]
    assert len(segments) == clocks.SEGMENTS
    assert all(len(sets) >= clocks.LOOKS for sets in segments)
    assert measured.candidate.judge_ms == pytest.approx(0.005)
    assert measured.reference.judge_ms == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("options", "sequential"),
    [
        ({"call_ms": 0.019, "noise": 0.1}, True),
        ({"call_ms": 0.005, "captures": False, "noise": 0.1}, True),
        ({"call_ms": 0.3, "gated": False}, True),
        ({"call_ms": 0.005}, False),
        ({"call_ms": 0.3}, False),
    ],
)
def test_where_events_may_count_or_nobody_wants_less_all_calls_are_made(options, sequential):
    candidate, reference = Timed(**options), Timed(0.3)
    sides = candidate.side(sequential=sequential), reference.side(sequential=sequential)
    measured = measure(*sides, 100, lambda sets: None)
    assert (measured.candidate.calls, measured.reference.calls) == (100, 100)


@pytest.mark.parametrize("noise", [0.0, 0.004])
def test_where_the_first_calls_say_enough_later_segments_are_short_and_graphs_confirm(noise):
    candidate, reference, looks = Fenced(0.1, noise=noise), Timed(0.3, noise=noise), []
    side = candidate.side(fences=True, sequential=True)
    measured = measure(side, reference.side(sequential=True), 100, looks.append)
    assert measured.tier == "two_clocks"
    assert counted(reference) == [25, *[clocks.CHECKED_CALLS] * 3]
    assert all(len(sets) >= clocks.LOOKS for sets in looks)
    assert measured.candidate.judge_ms == pytest.approx(0.1, rel=0.05)
    assert repetitions(candidate) == 1


@pytest.mark.parametrize("other_ms", [0.005, 0.025])
def test_where_a_side_may_be_short_graphs_do_not_only_confirm(other_ms):
    candidate = Timed(0.1)
    side = candidate.side(sequential=True)
    measure(side, Timed(other_ms).side(sequential=True), 100, lambda sets: None)
    assert repetitions(candidate) == clocks.REPEATS
    assert not side.confirms


def test_clocks_that_disagree_are_asked_again_although_they_only_confirm():
    candidate = Timed(0.1, true_ms=0.15)
    measured = measure(candidate.side(sequential=True), Timed(0.3).side(sequential=True), 100, lambda sets: None)
    assert measured.disagrees
    assert measured.runtime_ms == pytest.approx(0.15)
    assert repetitions(candidate) == clocks.MOST_REPEATS


@pytest.mark.parametrize(("stalls", "repeated"), [((), 2), ((1,), 3), ((1, 2), 4), ((2,), 3)])
def test_a_stall_in_a_longer_round_is_found_where_contexts_are_made_beside(stalls, repeated):
    """Stalls of some tenths of a millisecond in some repetitions of the longer rounds; two of them must take alike."""
    worker, seen = Timed(0.005, around_ms=0.01, message_ms=0.1), 0

    def ask(fields):
        nonlocal seen
        long = fields["mode"] == "graph" and fields["count"] > clocks.PROBED[1]
        seen += long
        worker.now += 0.0003 * seen if long and seen in stalls else 0.0
        return worker.ask(fields)

    side = Side(ask, SETS, random.Random(1), worker.clock, beside=True)
    found = measure(side, Timed().side(), 40, lambda sets: None)
    assert repetitions(worker) == repeated
    assert found.candidate.judge_ms == pytest.approx(0.005, rel=1e-6)


def test_replays_that_others_slowed_are_made_again_often_enough():
    """Five times as slow until the device is held alone."""
    worker = Timed(0.05, around_ms=0.05, message_ms=0.15)
    side, reference = worker.side(sequential=True), Timed().side()
    worker.true_ms = worker.around_ms = 0.25
    clocks.make_ready(side, reference)
    worker.true_ms = worker.around_ms = 0.05
    found = clocks.measure(side, reference, 40, lambda sets: None)
    assert found.candidate.judge_ms == pytest.approx(0.05)
    most = max(fields["count"] for fields in worker.of_mode("graph"))
    assert (most - 1) * side.per_graph * 0.1 >= clocks.ENOUGH * clocks.CONFIRMING_MS


@pytest.mark.parametrize(("before_ms", "now_ms", "valid"), [
    (0.005, 0.0054, True), (0.005, 0.0057, False), (0.1, 0.1015, True), (0.1, 0.1025, False),
])  # fmt: skip
def test_a_drift_that_no_event_resolves_is_none_for_who_wants_less(before_ms, now_ms, valid):
    kept = clocks.CachedTime(before_ms, before_ms, 0.0, confirmed=True)
    assert kept.is_valid(now_ms, 1.0, sequential=True) is valid
    assert kept.is_valid(now_ms, 1.0) is (valid and before_ms > 0.01)
