"""The judge's side of timing: the workers' rounds, the judge's own clock, and the time that is rewarded.

Candidate and reference are timed in the same way, interleaved, on the same input sets. Each gets two figures: the
median of the worker's events, each over one call with the L2 cache flushed, and the judge's own: the time of many
replays of a graph of calls less that of few, less the same for a graph of the work around the calls. The slower of the
two is rewarded, and only the judge's below 20 microseconds, where an event takes longer than a call. The judge's figure
of a reference can come from an earlier evaluation (`CachedTime`).

Source of the order statistics of a median: Le Boudec, Performance Evaluation of Computer and Communication Systems,
theorem 2.1.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from warpsmith.evaluator.ipc import codec

SHORT_MS: Final = 0.02
"""Shorter calls are timed by graphs alone."""
CLEARLY_SHORT: Final = 0.75
"""Share of SHORT_MS below which a side's first calls show that events will not count."""
CLEARLY_LONG: Final = 1.5
"""The same, above which they show that events will count, and the judge's clock only confirms them."""
NARROW: Final = 0.005
"""Width of the median's interval, as a share of it, from which more calls say little more."""
CHECKED_CALLS: Final = 6
"""Calls of each later segment where more need not be timed: they are made for the checks of their answers."""
WORTH_MS: Final = 10.0
"""Approximate time of the calls by which the judge's longer rounds exceed its shorter ones."""
CONFIRMING_MS: Final = 4.0
"""The same where its clock only confirms events, to 5 %."""
PROBED: Final = (1, 8)
"""Numbers of replays from which their duration is estimated; only the first if it takes PROBE_MS or longer."""
PROBE_MS: Final = 4.0
ENOUGH: Final = 0.6
"""Share of that time below which the longer rounds were too short, and are made again with more replays."""
PROBES: Final = 2
"""How often this is repeated, so that one delay of the host is not taken for a replay's duration."""
WITH_RESETS: Final = 5.0
"""Longest credible replay of long calls, as a multiple of the calls' time. The rest poisons and copies their output;
anything longer is a delay of the host."""
GRAPH_MS: Final = 4.0
MAX_WALKS: Final = 8
WARM_UPS: Final = 3
SEGMENTS: Final = 4
REPEATS: Final = 2
MOST_REPEATS: Final = 4
"""Maximum repetitions if the clocks disagree: a single delay of the host must not count against a kernel."""
ALIKE: Final = 0.01
"""Largest difference of the two shortest of the longer rounds, as a share of their calls' time, where a stall of some
tenths of a millisecond is likely."""
LONG_MS: Final = 0.5
"""Calls from here on need only one repetition: the judge's rounds are longer, but its clock's noise is not."""
REFERENCE_MS: Final = 150.0
LEAST_CALLS: Final = 15
"""A slow reference is called less often than the candidate: about this long in total, and at least this often."""
CACHED_S: Final = 60.0
DRIFT: Final = 0.02
"""How long a reference's time by the judge's clock is cached, and how far its events may drift meanwhile."""
EVENT_MS: Final = 0.0005
"""Resolution of an event. A shorter drift is none: two per cent of a call of 5 microseconds is a fifth of it."""
AGREED: Final = 0.05
AGREED_MS: Final = 0.0001
"""Largest difference of two such times for the smaller one to be cached: a share of it, or what is noise in any."""
LOOKS: Final = 2
"""Answers checked in each segment."""
FENCED_CALLS: Final = 4
"""Calls in addition to the counted ones, at secret places, with the candidate's kernels fenced; their answers are
checked too. Long calls get one: a fenced kernel may take many times as long."""
FENCED_GRAPH_MS: Final = 10.0
"""Longest walk round the ring whose calls are all fenced in one graph; only one call is in a longer walk."""
TOLERATED: Final = 0.05
"""Tolerated excess of the judge's clock over the events: it includes the launches between calls."""
TOLERATED_MS: Final = 0.003
Z95: Final = 1.96

Ask = Callable[[dict[str, Any]], codec.Fields]


def disagree(events_ms: float, judge_ms: float | None) -> bool:
    """Whether the judge's clock exceeds the events by more than the work between calls."""
    return judge_ms is not None and judge_ms > events_ms * (1 + TOLERATED) + TOLERATED_MS


@dataclass(frozen=True)
class Figures:
    """The measurements of one side, in milliseconds.

    Attributes:
        events_ms: median over the calls of the time between a worker's events.
        low_ms: lower end of the median's 95 % confidence interval.
        high_ms: its upper end.
        judge_ms: a call's time by the judge's clock; None if no graph of it could be captured.
        gated: whether a gate held every call until it was enqueued.
        calls: number of calls in the median.
    """

    events_ms: float
    low_ms: float
    high_ms: float
    judge_ms: float | None
    gated: bool
    calls: int

    @property
    def slower_ms(self) -> float:
        """The events' figure, or the judge's if that is slower by more than the work between calls."""
        return (self.judge_ms or 0.0) if disagree(self.events_ms, self.judge_ms) else self.events_ms

    @property
    def alone_ms(self) -> float:
        """The figure of a side that is timed alone: the judge's if events measure more than the device's time.

        They do if a call is shorter than the cost of an event, or if no gate excluded the host's time.
        """
        return self.judge_ms if self.judge_ms and (self.events_ms < SHORT_MS or not self.gated) else self.slower_ms


@dataclass(frozen=True)
class Timing:
    """The times of a candidate and its reference, and how they were taken."""

    candidate: Figures
    reference: Figures

    @property
    def tier(self) -> str:
        """`graph`: the judge's clock over graph replays; `two_clocks`: events confirmed by it; `events`: alone."""
        judged = self.candidate.judge_ms is not None and self.reference.judge_ms is not None
        if judged and min(self.candidate.events_ms, self.reference.events_ms) < SHORT_MS:
            return "graph"
        return "two_clocks" if self.candidate.judge_ms is not None else "events"

    @property
    def runtime_ms(self) -> float:
        return self._of(self.candidate)

    @property
    def reference_ms(self) -> float:
        """The reference's time, by the judge's clock if the candidate's is: a slowed device slows both.

        Also by that clock if no gate excluded the host's time from its events, which must not be rewarded.
        """
        if (self.disagrees or not self.reference.gated) and self.reference.judge_ms is not None:
            return self.reference.judge_ms
        return self._of(self.reference)

    @property
    def disagrees(self) -> bool:
        """Whether the judge's clock measures a longer call of the candidate than its events do."""
        return self.tier != "graph" and self.candidate.slower_ms != self.candidate.events_ms

    def _of(self, side: Figures) -> float:
        if self.tier == "graph" and side.judge_ms is not None:
            return max(side.judge_ms, 1e-6)
        return side.slower_ms


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the 95 % confidence interval of the median, for any distribution.

    Fewer than six values have none; their minimum and maximum are returned.
    """
    ordered = sorted(values)
    count = len(ordered)
    reach = Z95 * math.sqrt(count) / 2
    # The theorem's indices are 1-based, and its upper index is one further from the middle than the lower one.
    low, high = math.floor(count / 2 - reach) - 1, math.ceil(count / 2 + reach)
    return ordered[max(low, 0)], ordered[min(high, count - 1)]


@dataclass(frozen=True)
class CachedTime:
    """A reference's time by the judge's clock, from earlier evaluations.

    Attributes:
        judge_ms: the time; the least that was measured.
        events_ms: the events' figure measured with it.
        at: time of the measurement, in seconds of the judge's clock.
        confirmed: whether two consecutive evaluations measured it, which excludes a passing disturbance.
    """

    judge_ms: float
    events_ms: float
    at: float
    confirmed: bool = False

    def is_valid(self, events_ms: float, now: float, *, sequential: bool = False) -> bool:
        """Whether it can replace a measurement if the events measure `events_ms` at the time `now`.

        `sequential`: see `Side`; differences below the resolution of the clocks are none then.
        """
        return self.confirmed and self._is_near(events_ms, now, EVENT_MS if sequential else 0.0)

    def updated(self, judge_ms: float, events_ms: float, now: float, *, sequential: bool = False) -> "CachedTime":
        """Return the time to cache after another measurement; `sequential` as for `is_valid`."""
        apart_ms, (most_ms, event_ms) = abs(judge_ms - self.judge_ms), (AGREED_MS, EVENT_MS) if sequential else (0, 0)
        agrees = apart_ms <= max(AGREED * judge_ms, most_ms) and self._is_near(events_ms, now, event_ms)
        return CachedTime(min(judge_ms, self.judge_ms) if agrees else judge_ms, events_ms, now, agrees)

    def _is_near(self, events_ms: float, now: float, least_ms: float) -> bool:
        drift_ms = abs(events_ms - self.events_ms)
        return now - self.at <= CACHED_S and drift_ms <= max(DRIFT * self.events_ms, least_ms)


@dataclass
class Side:
    """One worker whose calls are timed.

    Args:
        ask: sends a ROUND and returns the fields of ROUNDED. Its field `captures` says that the round captures a graph,
            which runs nothing on the device.
        sets: number of sets in the ring.
        rng: chooses the order, which must be unpredictable.
        clock: seconds since some moment.
        cached: its time from earlier evaluations, if known.
        fences: whether its worker has fenced twins of its kernels, some of which are to be called.
        least_ms: shortest time of any call on this device; shorter results are noise.
        sequential: whether to spend less time where that suffices: few single calls where graphs alone count or the
            median's interval is narrow, short rounds of graphs where they only confirm events, the number of replays
            found before the device is held alone, and a reference's earlier time although its events differ by less
            than they resolve.
        beside: whether others may create contexts meanwhile, which occasionally stalls the device.

    Attributes:
        times: times of the counted calls in milliseconds, by events.
        gated: whether a gate held every call.
        graphs: whether its calls can be captured, as far as known.
        captured: whether that was tried.
        estimate_ms: approximate time of a call.
        walks: walks of one graph round the ring.
        per_graph: calls of one graph.
        replay_ms: approximate time of one replay of a graph of calls; 0 until it is known.
        walls: wall times in milliseconds, by mode and number of replays.
        fenced_sets: sets whose calls are fenced in the graph of fenced calls.
        confirms: whether the judge's clock only confirms its events.
    """

    ask: Ask
    sets: int
    rng: random.Random
    clock: Callable[[], float] = time.perf_counter
    cached: CachedTime | None = None
    fences: bool = False
    least_ms: float = 0.0
    sequential: bool = False
    beside: bool = False
    times: list[float] = field(default_factory=list)
    gated: bool = True
    graphs: bool = True
    captured: bool = False
    estimate_ms: float = 0.0
    walks: int = 1
    per_graph: int = 1
    replay_ms: float = 0.0
    walls: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    fenced_sets: list[int] = field(default_factory=list)
    confirms: bool = False

    def calls(self, count: int, looks: int = 0, *, fenced: int = 0, counted: bool = True) -> list[int]:
        """Time `count` calls by events, and let the worker deliver some answers, at secret places.

        Args:
            count: number of calls whose times count.
            looks: how many of them are checked.
            fenced: additional fenced calls; they are checked as well, and their times do not count.
            counted: whether any times count.

        Returns:
            The sets whose answers were delivered, without duplicates.
        """
        order = self._order(count + fenced)
        places = self._places(order, looks + fenced)
        # With few sets, not all checked calls may be fenced.
        most = max(len(places) - 1, self.rng.randrange(2))
        apart = self.rng.sample(places, min(fenced, most, len(places)))
        answer = self._ask_round("call", order=order, deliver=places, fenced=sorted(apart))
        self.gated &= answer.flag("gated")
        if counted:
            times = [ms for place, ms in enumerate(answer.sequence("milliseconds")) if place not in apart]
            self.times += [float(ms) for ms in times if isinstance(ms, int | float)]
        return [order[place] for place in places]

    def _ask_round(self, mode: str, **fields: Any) -> codec.Fields:
        nothing: dict[str, Any] = {"order": [], "deliver": [], "fenced": [], "count": 0, "walks": 1, "captures": False}
        return self.ask({"mode": mode} | nothing | fields)

    def _places(self, order: list[int], looks: int) -> list[int]:
        """Return random places of a walk, no two of the same set: the later answer would overwrite the earlier one."""
        chosen: dict[int, int] = {}
        for place in self.rng.sample(range(len(order)), len(order)):
            if len(chosen) < looks and order[place] not in chosen:
                chosen[order[place]] = place
        return sorted(chosen.values())

    def _order(self, count: int) -> list[int]:
        """Return a walk in random order in which the sets occur equally often, give or take one."""
        order: list[int] = []
        while len(order) < count:
            order += self.rng.sample(range(self.sets), self.sets)
        return order[:count]

    def graph(self, mode: str, count: int, walks: int, *, captures: bool = False) -> None:
        """Replay a graph `count` times and record the wall time; `captures`: it is captured before."""
        started = self.clock()
        answer = self._ask_round(mode, count=count, walks=walks, captures=captures)
        elapsed = self.clock() - started
        self.graphs = self.graphs and answer.flag("captured")
        self.per_graph = max(answer.integer("calls"), 1)
        self.walls.setdefault((mode, count), []).append(1000 * elapsed)

    def prepare(self) -> None:
        """Warm up, and choose the number of calls per graph of the judge's clock; long calls warm up sooner."""
        self._estimate(max(self.sets, WARM_UPS))
        if self.estimate_ms < LONG_MS:
            self._estimate((WARM_UPS - 1) * self.sets)
        self.walks = max(1, min(MAX_WALKS, int(GRAPH_MS / (max(self.estimate_ms, 1e-3) * self.sets))))

    def begin(self) -> None:
        """Walk the ring once, with the device leased alone, to estimate the time of a call."""
        self._estimate(self.sets)

    def _estimate(self, calls: int) -> None:
        self.calls(calls)
        # Times taken while others used the device do not count.
        self.estimate_ms, self.times, self.gated = median(self.times), [], True

    def capture(self) -> None:
        """Capture the graphs of the judge's clock, unless done before."""
        if self.captured:
            return
        for mode in ("graph", "empty_graph"):
            if self.graphs:
                self.graph(mode, 1, self.walks, captures=True)
        if self.graphs and self.fences:
            self._choose_fenced()
            self.fenced_graph(0, captures=True)
        # Times of the capture do not count.
        self.walls.clear()
        self.captured = True
        if self.graphs and self.sequential:
            self.replay_ms = _replay_ms(self, self.estimate_ms)

    def _choose_fenced(self) -> None:
        all_ms = self.estimate_ms * self.sets
        self.fenced_sets = self.rng.sample(range(self.sets), self.sets if all_ms <= FENCED_GRAPH_MS else 1)

    def fenced_graph(self, count: int = 1, *, captures: bool = False) -> None:
        """Replay a graph of one walk round the ring in which some random calls are fenced; it is not timed."""
        self._ask_round("fenced_graph", count=count, fenced=sorted(self.fenced_sets), captures=captures)

    def judged(self, few: int, many: int) -> float | None:
        """Return a call's time by this process's clock: the time of more replays less that of the work around calls."""
        if not self.graphs:
            return None
        slopes = {mode: self.slope(mode, few, many) for mode in ("graph", "empty_graph")}
        return max((slopes["graph"] - slopes["empty_graph"]) / self.per_graph, self.least_ms)

    def slope(self, mode: str, few: int, many: int) -> float:
        """Return the time of one replay in milliseconds, from the shortest rounds of few and of many."""
        return (min(self.walls[mode, many]) - min(self.walls[mode, few])) / (many - few)

    def is_confirmed(self, few: int, many: int) -> bool:
        """Whether the two shortest rounds of many replays took about the same time, so that neither has a stall."""
        one, other = sorted(self.walls["graph", many])[:2]
        return other - one <= ALIKE * self.slope("graph", few, many) * (many - few)

    def figures(self, judged: float | None) -> Figures:
        low, high = interval(self.times)
        return Figures(median(self.times), low, high, judged, self.gated, len(self.times))


Look = Callable[[Sequence[int]], None]
"""Checks delivered answers of the candidate, by set, and records the result itself."""


def make_ready(candidate: Side, reference: Side) -> None:
    """Do the untimed preparations, during which others may use the device.

    The reference's graphs are captured now unless its cached time is likely to be valid. If it turns out not to be,
    they are captured while the device is leased alone.
    """
    candidate.prepare()
    candidate.capture()
    reference.prepare()
    cached = reference.cached
    if cached is None or not cached.is_valid(cached.events_ms, reference.clock(), sequential=reference.sequential):
        reference.capture()


def measure(
    candidate: Side, reference: Side, count: int, look: Look, between: Callable[[], None] = lambda: None
) -> Timing:
    """Time `count` calls of each side, taking turns, and each side by the judge's clock, once both are ready.

    The device must be leased alone. Answers of secretly chosen calls are checked as they come. If the judge's clock
    confirmed a time of the reference earlier (`reference.cached`), it replaces the reference's graphs as long as the
    reference's calls, timed beside the candidate's, take as long as then. `between` is called after each segment of the
    candidate's calls.

    Of sides that are timed sequentially, later segments are short where the first ones show that the judge's clock
    alone will count, or the medians well enough: their calls are made for the checks of their answers.
    """
    sides = (candidate, reference)
    for side in sides:
        side.begin()
    counts = (count, calls_of_reference(count, reference.estimate_ms))
    fenced, only_checked = _fenced_calls(candidate), False
    for segment in range(SEGMENTS):
        for side, calls in random.sample(list(zip(sides, counts, strict=True)), 2):
            share = calls // SEGMENTS + (segment < calls % SEGMENTS)
            share = min(share, CHECKED_CALLS) if only_checked else share
            looks, apart = (LOOKS, fenced[segment]) if side is candidate else (0, 0)
            delivered = side.calls(max(share, 1), looks, fenced=apart)
            if side is candidate:
                between()
            if delivered:
                look(delivered)
        only_checked = only_checked or _graphs_alone_count(candidate, reference) or _are_narrow(candidate, reference)
    candidate.confirms = _events_count(candidate, reference)
    judged = judge_side(candidate, look)
    slowed = disagree(median(candidate.times), judged)
    return Timing(candidate.figures(judged), reference.figures(_judged_or_cached(reference, fresh=slowed)))


def _graphs_alone_count(candidate: Side, reference: Side) -> bool:
    """Whether a side's calls so far are so clearly short that no figure of events will count (`Timing.tier`)."""
    if not (candidate.sequential and candidate.captured and candidate.graphs and reference.graphs):
        return False
    return any(interval(side.times)[1] < CLEARLY_SHORT * SHORT_MS for side in (candidate, reference))


def _are_narrow(candidate: Side, reference: Side) -> bool:
    """Whether the medians of both sides are known so well that more calls need not be timed."""
    if not (candidate.sequential and candidate.gated and reference.gated):
        return False
    intervals = [(median(side.times), *interval(side.times)) for side in (candidate, reference)]
    return all(high - low <= NARROW * middle for middle, low, high in intervals)


def _events_count(candidate: Side, reference: Side) -> bool:
    """Whether both sides' calls are so clearly long that the figures of events will count (`Timing.tier`)."""
    sides = (candidate, reference)
    return candidate.sequential and all(
        side.gated and interval(side.times)[0] > CLEARLY_LONG * SHORT_MS for side in sides
    )


def _fenced_calls(side: Side) -> list[int]:
    """Return the number of fenced calls of each segment, chosen at random."""
    wanted = (1 if side.estimate_ms >= LONG_MS else FENCED_CALLS) if side.fences else 0
    chosen = [side.rng.randrange(SEGMENTS) for _ in range(wanted)]
    return [chosen.count(segment) for segment in range(SEGMENTS)]


def calls_of_reference(count: int, estimate_ms: float) -> int:
    """Return how often a reference is called whose call takes about `estimate_ms`; `count` if it is fast."""
    return min(count, max(LEAST_CALLS, int(REFERENCE_MS / max(estimate_ms, 1e-3))))


def measure_one(side: Side, count: int) -> Figures:
    """Time `count` calls of one side alone, by events and by the judge's clock. The device must be leased alone."""
    side.prepare()
    return measure_prepared(side, count)


def measure_prepared(side: Side, count: int) -> Figures:
    """Do the same for a side that is prepared, and whose graphs may be captured."""
    side.begin()
    side.calls(count)
    return side.figures(judge_side(side, None))


def _judged_or_cached(reference: Side, *, fresh: bool) -> float | None:
    """Return the reference's time by the judge's clock; cache a measured one, unless the clocks disagree.

    `fresh`: measure it now, so that whatever slows the candidate's graphs (power, a neighbour) affects both.
    """
    events_ms, now, cached = median(reference.times), reference.clock(), reference.cached
    sequential = reference.sequential
    if not fresh and cached is not None and cached.is_valid(events_ms, now, sequential=sequential):
        return cached.judge_ms
    judged = judge_side(reference, None)
    if judged is None or disagree(events_ms, judged):
        reference.cached = None
    else:
        before = cached or CachedTime(math.inf, events_ms, now)
        reference.cached = before.updated(judged, events_ms, now, sequential=sequential)
    return judged


def judge_side(side: Side, look: Look | None) -> float | None:
    """Return one side's time by the judge's clock, from two numbers of graph replays, taking turns."""
    side.capture()
    if not side.graphs:
        return None
    # From the counted calls: the estimate has few calls, and a kernel may be slow in its first ones.
    events_ms = median(side.times)
    if not (side.sequential and side.replay_ms):
        side.replay_ms = _replay_ms(side, events_ms)
    fenced_first = bool(side.rng.getrandbits(1))
    if fenced_first:
        _fenced_graph(side, look)
    judged, replay_ms = _replayed(side, events_ms, look)
    if replay_ms and side.sequential:
        # Others slowed the replays from which their number was chosen.
        side.replay_ms, side.walls = replay_ms, {}
        judged, _ = _replayed(side, events_ms, look)
    if not fenced_first:
        _fenced_graph(side, look)
    return judged


def _replayed(side: Side, events_ms: float, look: Look | None) -> tuple[float | None, float]:
    """Replay graphs few and many times; return a call's time, and a replay's if too few were made, else 0."""
    is_long = events_ms >= LONG_MS
    worth_ms = CONFIRMING_MS if side.confirms else WORTH_MS
    least = max(1 if side.confirms else 2, math.ceil(worth_ms / side.replay_ms))
    # Unpredictable, because the answers of the last replay are checked.
    few, many = 1, 1 + least + side.rng.randrange(max(4, least // 4))
    # The last one leaves the answers of its calls for the check.
    *others, last = itertools.product(("empty_graph", "graph"), (few, many))
    judged = None
    for repetition in range(1, MOST_REPEATS + 1):
        for mode, replays in (*others, last):
            side.graph(mode, replays, side.walks)
        # The first one after a check may take longer, so rotate it.
        others = [*others[1:], others[0]]
        if look is not None:
            look(range(side.sets))
        judged = side.judged(few, many)
        # A delay of the host in a shorter round makes a call seem to take no time.
        least_ms = events_ms / 2 if is_long else side.least_ms
        odd = disagree(events_ms, judged) or (judged is not None and judged <= least_ms)
        if repetition < (1 if is_long or side.confirms else REPEATS) or odd:
            continue
        if not side.beside or repetition < REPEATS or side.is_confirmed(few, many):
            break
    if not side.graphs:
        return None, 0.0
    replay_ms = side.slope("graph", few, many)
    # Nothing or less is a delay of the host, not the time of a replay.
    return judged, replay_ms if 0 < replay_ms * (many - few) < ENOUGH * worth_ms else 0.0


def _fenced_graph(side: Side, look: Look | None) -> None:
    """Replay the graph of fenced calls, if there is one, and check all answers."""
    if look is not None and side.fenced_sets:
        side.fenced_graph()
        look(range(side.sets))


def _replay_ms(side: Side, events_ms: float) -> float:
    """Return the approximate time of one replay if a call takes `events_ms`, without the message's overhead.

    A worker that was idle slows the first replay, whose excess is then not overhead: further replays count as at least
    half of their share. For long calls one replay is enough, because the clock needs few of them.
    """
    few, many = PROBED
    is_long = events_ms >= LONG_MS
    most_ms = (WITH_RESETS if is_long else 2.0) * events_ms * side.per_graph
    for _ in range(PROBES):
        side.graph("graph", few, side.walks)
        first_ms = min(side.walls["graph", few])
        if first_ms >= PROBE_MS and (first_ms <= most_ms or is_long):
            first_ms = min(first_ms, most_ms)
            break  # long enough
        side.graph("graph", many, side.walks)
    walls, side.walls = side.walls, {}
    if ("graph", many) not in walls:
        return first_ms / few
    all_ms = min(walls["graph", many])
    return max((all_ms - first_ms) / (many - few), all_ms / many / 2, 1e-4)
