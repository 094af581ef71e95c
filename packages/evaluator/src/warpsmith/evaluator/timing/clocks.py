"""The judge's side of timing: what is asked of the workers, the judge's own clock, and the figure that is rewarded.

Candidate and reference are timed in the same way, interleaved, on the same input sets. For each there are two figures:
the median of the worker's events, each over one call with the L2 cache flushed, and the judge's own: how much longer
more replays of a graph of calls take than fewer, less the same for a graph of what stands around the calls. What is
rewarded is the slower of the two, and the judge's alone below 20 microseconds, where an event is longer than a call.
The judge's figure of a reference may be that of an earlier evaluation (`Kept`).

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
"""Calls below it are timed by graphs alone."""
WORTH_MS: Final = 10.0
"""By about how much the judge's longer rounds of calls are longer than its shorter ones."""
PROBED: Final = (1, 8)
"""Replays from which their duration is estimated; the first alone where it takes as long as PROBE_MS."""
PROBE_MS: Final = 4.0
PROBES: Final = 2
"""How often they are made: what holds the host up once is not to pass for a replay's duration."""
WITH_RESETS: Final = 5.0
"""A replay of long calls is taken to last at most so many times what the calls do. The rest poisons and copies their
output; whatever is beyond held the host up."""
GRAPH_MS: Final = 4.0
MAX_WALKS: Final = 8
WARM_UPS: Final = 3
SEGMENTS: Final = 4
REPEATS: Final = 2
MOST_REPEATS: Final = 4
"""Repetitions where the clocks disagree: what held the host up once is not held against a kernel."""
LONG_MS: Final = 0.5
"""From there on one repetition is exact enough: the judge's rounds are longer, and its clock's noise is not."""
REFERENCE_MS: Final = 150.0
LEAST_CALLS: Final = 15
"""A slow reference is called less often than the candidate: for so long, and so often at least."""
KEPT_S: Final = 60.0
DRIFT: Final = 0.02
"""For how long a reference's time by the judge's clock is kept, and how far its events may stray meanwhile."""
AGREED: Final = 0.05
"""How near two such times must be to one another for the lesser one to be kept."""
LOOKS: Final = 2
"""Answers that are looked at in each segment."""
FENCED_CALLS: Final = 4
"""Calls beside those that count, at secret places among them, in which the candidate's kernels are fenced; their
answers are looked at too. Of long calls it is one: a fenced kernel may take many times as long."""
FENCED_GRAPH_MS: Final = 10.0
"""Up to which calls of one walk round the ring are fenced all at once in a graph; one of them beyond."""
TOLERATED: Final = 0.05
"""How much slower than the events the judge's clock may run before its figure is taken: launches lie between calls."""
TOLERATED_MS: Final = 0.003
Z95: Final = 1.96

Ask = Callable[[dict[str, Any]], codec.Fields]


def disagree(events_ms: float, judge_ms: float | None) -> bool:
    """Whether the judge's clock is slower than the events by more than what lies between calls."""
    return judge_ms is not None and judge_ms > events_ms * (1 + TOLERATED) + TOLERATED_MS


@dataclass(frozen=True)
class Figures:
    """What was measured of one side; milliseconds.

    Attributes:
        events_ms: median over the calls of the time between a worker's events.
        low_ms: lower end of the median's 95 % confidence interval.
        high_ms: its upper end.
        judge_ms: a call's time by the judge's clock; None where no graph of it could be captured.
        gated: whether a gate held every call back until it had been handed over.
        calls: how many calls the median is of.
    """

    events_ms: float
    low_ms: float
    high_ms: float
    judge_ms: float | None
    gated: bool
    calls: int

    @property
    def slower_ms(self) -> float:
        """The events' figure, or the judge's where that is slower by more than what lies between calls."""
        return (self.judge_ms or 0.0) if disagree(self.events_ms, self.judge_ms) else self.events_ms

    @property
    def alone_ms(self) -> float:
        """The figure of a side that is timed alone: the judge's where events say more than the device's time.

        That is so where a call is shorter than what an event costs, and where no gate kept the host's time out.
        """
        return self.judge_ms if self.judge_ms and (self.events_ms < SHORT_MS or not self.gated) else self.slower_ms


@dataclass(frozen=True)
class Timing:
    """A candidate's time and its reference's, with how they were taken."""

    candidate: Figures
    reference: Figures

    @property
    def tier(self) -> str:
        """`graph`: by the judge's clock over graph replays; `two_clocks`: events that it supports; `events`: alone."""
        judged = self.candidate.judge_ms is not None and self.reference.judge_ms is not None
        if judged and min(self.candidate.events_ms, self.reference.events_ms) < SHORT_MS:
            return "graph"
        return "two_clocks" if self.candidate.judge_ms is not None else "events"

    @property
    def runtime_ms(self) -> float:
        return self._of(self.candidate)

    @property
    def reference_ms(self) -> float:
        """The reference's time, by the judge's clock where the candidate's is: what slows a device slows both.

        By that clock too where no gate kept the host's time out of its events: nobody is to be rewarded for that.
        """
        if (self.disagrees or not self.reference.gated) and self.reference.judge_ms is not None:
            return self.reference.judge_ms
        return self._of(self.reference)

    @property
    def disagrees(self) -> bool:
        """Whether the judge's clock says that a call of the candidate took longer than its events do."""
        return self.tier != "graph" and self.candidate.slower_ms != self.candidate.events_ms

    def _of(self, side: Figures) -> float:
        if self.tier == "graph" and side.judge_ms is not None:
            return max(side.judge_ms, 1e-6)
        return side.slower_ms


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the 95 % confidence interval of the median, without an assumption about the distribution.

    Fewer than six values have none; their least and greatest are returned.
    """
    ordered = sorted(values)
    count = len(ordered)
    reach = Z95 * math.sqrt(count) / 2
    # The theorem counts from one, and its upper end is one further from the middle than its lower end seems to be.
    low, high = math.floor(count / 2 - reach) - 1, math.ceil(count / 2 + reach)
    return ordered[max(low, 0)], ordered[min(high, count - 1)]


@dataclass(frozen=True)
class Kept:
    """A reference's time by the judge's clock, as earlier evaluations found it.

    Attributes:
        judge_ms: that time; the least that was found.
        events_ms: the events' figure beside it.
        at: when, in seconds of the judge's clock.
        confirmed: whether two evaluations in a row found it, so that no passing disturbance of one is kept.
    """

    judge_ms: float
    events_ms: float
    at: float
    confirmed: bool = False

    def holds(self, events_ms: float, now: float) -> bool:
        """Whether it stands in for a measurement where the events say `events_ms` at the moment `now`."""
        return self.confirmed and self._is_near(events_ms, now)

    def followed_by(self, judge_ms: float, events_ms: float, now: float) -> "Kept":
        """Return what is kept after another measurement."""
        agrees = abs(judge_ms - self.judge_ms) <= AGREED * judge_ms and self._is_near(events_ms, now)
        return Kept(min(judge_ms, self.judge_ms) if agrees else judge_ms, events_ms, now, agrees)

    def _is_near(self, events_ms: float, now: float) -> bool:
        return now - self.at <= KEPT_S and abs(events_ms - self.events_ms) <= DRIFT * self.events_ms


@dataclass
class Side:
    """One worker whose calls are timed.

    Args:
        ask: sends a ROUND and returns the fields of ROUNDED.
        sets: how many sets the ring has.
        rng: chooses the order; nobody can foresee it.
        clock: seconds since some moment.
        kept: what is known of its time from before.
        fences: whether its worker has fenced twins of its kernels, which are to be called now and then.
        least_ms: what any call takes on this device; no noise makes a call shorter.

    Attributes:
        times: of the calls that count, in milliseconds, by events.
        gated: whether a gate held every call back.
        graphs: whether its calls can be captured, as far as is known.
        captured: whether that was tried.
        estimate_ms: about how long a call takes.
        walks: how often one graph goes round the ring.
        per_graph: calls of one graph.
        walls: by mode and count of replays, what they took by the clock, in milliseconds.
        fenced_sets: whose calls are fenced in the graph of fenced calls.
    """

    ask: Ask
    sets: int
    rng: random.Random
    clock: Callable[[], float] = time.perf_counter
    kept: Kept | None = None
    fences: bool = False
    least_ms: float = 0.0
    times: list[float] = field(default_factory=list)
    gated: bool = True
    graphs: bool = True
    captured: bool = False
    estimate_ms: float = 0.0
    walks: int = 1
    per_graph: int = 1
    walls: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    fenced_sets: list[int] = field(default_factory=list)

    def calls(self, count: int, looks: int = 0, *, fenced: int = 0, counted: bool = True) -> list[int]:
        """Let `count` calls be timed by events, and the answers of some, at secret places, be delivered.

        Args:
            count: of the calls whose times count.
            looks: how many of them are looked at.
            fenced: fenced calls beside them; they are looked at as well, and their times do not count.
            counted: whether any times count.

        Returns:
            The sets whose answers were delivered, each once.
        """
        order = self._order(count + fenced)
        places = self._places(order, looks + fenced)
        # Where there are few sets, not all that is looked at is to be fenced.
        most = max(len(places) - 1, self.rng.randrange(2))
        apart = self.rng.sample(places, min(fenced, most, len(places)))
        told = self._ask_round("call", order=order, deliver=places, fenced=sorted(apart))
        self.gated &= told.flag("gated")
        if counted:
            times = [ms for place, ms in enumerate(told.sequence("milliseconds")) if place not in apart]
            self.times += [float(ms) for ms in times if isinstance(ms, int | float)]
        return [order[place] for place in places]

    def _ask_round(self, mode: str, **fields: Any) -> codec.Fields:
        nothing: dict[str, Any] = {"order": [], "deliver": [], "fenced": [], "count": 0, "walks": 1}
        return self.ask({"mode": mode} | nothing | fields)

    def _places(self, order: list[int], looks: int) -> list[int]:
        """Return random places of a walk, no two of one set: the later answer would cover the earlier one."""
        chosen: dict[int, int] = {}
        for place in self.rng.sample(range(len(order)), len(order)):
            if len(chosen) < looks and order[place] not in chosen:
                chosen[order[place]] = place
        return sorted(chosen.values())

    def _order(self, count: int) -> list[int]:
        """Return a walk in which every set comes as often as any other, give or take one, in random order."""
        order: list[int] = []
        while len(order) < count:
            order += self.rng.sample(range(self.sets), self.sets)
        return order[:count]

    def graph(self, mode: str, count: int, walks: int) -> None:
        """Replay a graph `count` times and note how long that takes by this process's clock, in milliseconds."""
        started = self.clock()
        told = self._ask_round(mode, count=count, walks=walks)
        elapsed = self.clock() - started
        self.graphs = self.graphs and told.flag("captured")
        self.per_graph = max(told.integer("calls"), 1)
        self.walls.setdefault((mode, count), []).append(1000 * elapsed)

    def prepare(self) -> None:
        """Warm up, and find out how many calls a graph of the judge's clock is to have; long calls warm up sooner."""
        self._estimate(max(self.sets, WARM_UPS))
        if self.estimate_ms < LONG_MS:
            self._estimate((WARM_UPS - 1) * self.sets)
        self.walks = max(1, min(MAX_WALKS, int(GRAPH_MS / (max(self.estimate_ms, 1e-3) * self.sets))))

    def begin(self) -> None:
        """Go round the ring once, with nobody beside, to find out about how long a call takes."""
        self._estimate(self.sets)

    def _estimate(self, calls: int) -> None:
        self.calls(calls)
        # What is found beside others is not held against the calls that count.
        self.estimate_ms, self.times, self.gated = median(self.times), [], True

    def capture(self) -> None:
        """Capture the graphs of the judge's clock, if they were not yet."""
        if self.captured:
            return
        for mode in ("graph", "empty_graph"):
            if self.graphs:
                self.graph(mode, 1, self.walks)
        if self.graphs and self.fences:
            self._choose_fenced()
            self.fenced_graph(0)
        # The capture is not to count.
        self.walls.clear()
        self.captured = True

    def _choose_fenced(self) -> None:
        all_ms = self.estimate_ms * self.sets
        self.fenced_sets = self.rng.sample(range(self.sets), self.sets if all_ms <= FENCED_GRAPH_MS else 1)

    def fenced_graph(self, count: int = 1) -> None:
        """Replay a graph of one walk round the ring in which some calls, chosen by lot, are fenced; it is not timed."""
        self._ask_round("fenced_graph", count=count, fenced=sorted(self.fenced_sets))

    def judged(self, few: int, many: int) -> float | None:
        """Return a call's time by this process's clock: what more replays take, less what stands around the calls."""
        if not self.graphs:
            return None
        slopes = {mode: self._slope(mode, few, many) for mode in ("graph", "empty_graph")}
        return max((slopes["graph"] - slopes["empty_graph"]) / self.per_graph, self.least_ms)

    def _slope(self, mode: str, few: int, many: int) -> float:
        return (min(self.walls[mode, many]) - min(self.walls[mode, few])) / (many - few)

    def figures(self, judged: float | None) -> Figures:
        low, high = interval(self.times)
        return Figures(median(self.times), low, high, judged, self.gated, len(self.times))


Look = Callable[[Sequence[int]], None]
"""Looks at delivered answers of the candidate, by set; what it finds is its own affair."""


def make_ready(candidate: Side, reference: Side) -> None:
    """Do what must come before and has no time: others may use the device meanwhile.

    The reference's graphs are captured now unless what is kept of it is likely to do; if it does not after all, they
    are captured while the device is held alone.
    """
    candidate.prepare()
    candidate.capture()
    reference.prepare()
    if reference.kept is None or not reference.kept.holds(reference.kept.events_ms, reference.clock()):
        reference.capture()


def measure(candidate: Side, reference: Side, count: int, look: Look) -> Timing:
    """Time `count` calls of each side, taking turns, and each side by the judge's clock, once both are ready.

    The device must be leased to nobody else. Answers of secretly chosen calls are looked at as they come. What the
    judge's clock said of the reference twice before (`reference.kept`) stands in for its graphs as long as its calls,
    timed beside the candidate's, take what they took then.
    """
    sides = (candidate, reference)
    for side in sides:
        side.begin()
    counts = (count, _calls_of_reference(count, reference.estimate_ms))
    fenced = _fenced_calls(candidate)
    for segment in range(SEGMENTS):
        for side, calls in random.sample(list(zip(sides, counts, strict=True)), 2):
            share = calls // SEGMENTS + (segment < calls % SEGMENTS)
            looks, apart = (LOOKS, fenced[segment]) if side is candidate else (0, 0)
            delivered = side.calls(max(share, 1), looks, fenced=apart)
            if delivered:
                look(delivered)
    judged = judge_side(candidate, look)
    slowed = disagree(median(candidate.times), judged)
    return Timing(candidate.figures(judged), reference.figures(_judged_or_kept(reference, anew=slowed)))


def _fenced_calls(side: Side) -> list[int]:
    """Return how many calls of each segment are fenced: by lot."""
    wanted = (1 if side.estimate_ms >= LONG_MS else FENCED_CALLS) if side.fences else 0
    chosen = [side.rng.randrange(SEGMENTS) for _ in range(wanted)]
    return [chosen.count(segment) for segment in range(SEGMENTS)]


def _calls_of_reference(count: int, estimate_ms: float) -> int:
    return min(count, max(LEAST_CALLS, int(REFERENCE_MS / max(estimate_ms, 1e-3))))


def measure_one(side: Side, count: int) -> Figures:
    """Time `count` calls of one side alone, by events and by the judge's clock. The device must be leased alone."""
    side.prepare()
    side.begin()
    side.calls(count)
    return side.figures(judge_side(side, None))


def _judged_or_kept(reference: Side, *, anew: bool) -> float | None:
    """Return the reference's time by the judge's clock; what had to be measured is kept, unless the clocks disagree.

    `anew`: whatever slows the candidate's graphs just now (power, a neighbour) is to slow the reference's too.
    """
    events_ms, now, kept = median(reference.times), reference.clock(), reference.kept
    if not anew and kept is not None and kept.holds(events_ms, now):
        return kept.judge_ms
    judged = judge_side(reference, None)
    if judged is None or disagree(events_ms, judged):
        reference.kept = None
    else:
        before = kept or Kept(math.inf, events_ms, now)
        reference.kept = before.followed_by(judged, events_ms, now)
    return judged


def judge_side(side: Side, look: Look | None) -> float | None:
    """Return one side's time by the judge's clock, over graph replays of two counts, taking turns."""
    side.capture()
    if not side.graphs:
        return None
    # By the calls that were counted: few came before them, and a kernel may be slow in those.
    events_ms = median(side.times)
    is_long = events_ms >= LONG_MS
    least = max(2, math.ceil(WORTH_MS / _replay_ms(side, events_ms)))
    # Nobody can foresee which replay is the last, whose answers are looked at.
    few, many = 1, 1 + least + side.rng.randrange(max(4, least // 4))
    fenced_first = bool(side.rng.getrandbits(1))
    if fenced_first:
        _fenced_graph(side, look)
    # The last leaves answers of calls to be looked at.
    *others, last = itertools.product(("empty_graph", "graph"), (few, many))
    for repetition in range(1, MOST_REPEATS + 1):
        for mode, replays in (*others, last):
            side.graph(mode, replays, side.walks)
        # The first after a look may take longer: that is not to be the same one each time.
        others = [*others[1:], others[0]]
        if look is not None:
            look(range(side.sets))
        judged = side.judged(few, many)
        # What held the host up in a shorter round makes a call seem to take nothing.
        least_ms = events_ms / 2 if is_long else side.least_ms
        odd = disagree(events_ms, judged) or (judged is not None and judged <= least_ms)
        if repetition >= (1 if is_long else REPEATS) and not odd:
            break
    if not fenced_first:
        _fenced_graph(side, look)
    return judged


def _fenced_graph(side: Side, look: Look | None) -> None:
    """Replay the graph of fenced calls, where there is one, and look at all answers."""
    if look is not None and side.fenced_sets:
        side.fenced_graph()
        look(range(side.sets))


def _replay_ms(side: Side, events_ms: float) -> float:
    """Return about how long one replay takes where a call takes `events_ms`, without what the message takes.

    The first replay may be slowed by whatever rested before, and then says too much of the message: more replays are
    not taken for shorter than half of their share. Of long calls one replay says enough: the clock needs few of them.
    """
    few, many = PROBED
    is_long = events_ms >= LONG_MS
    most_ms = (WITH_RESETS if is_long else 2.0) * events_ms * side.per_graph
    for _ in range(PROBES):
        side.graph("graph", few, side.walks)
        first_ms = min(side.walls["graph", few])
        if first_ms >= PROBE_MS and (first_ms <= most_ms or is_long):
            first_ms = min(first_ms, most_ms)
            break  # a long one indeed
        side.graph("graph", many, side.walks)
    walls, side.walls = side.walls, {}
    if ("graph", many) not in walls:
        return first_ms / few
    all_ms = min(walls["graph", many])
    return max((all_ms - first_ms) / (many - few), all_ms / many / 2, 1e-4)
