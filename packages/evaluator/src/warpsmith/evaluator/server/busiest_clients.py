"""Evaluations by client, for the metrics: the busiest clients have a series each, all others share one.

Clients choose their names, so the number of series must not depend on them. Totals are exact and never fall: a client
that loses its series leaves its counts in the shared one, and one that gets a series starts at zero.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

Result = Literal["admitted", "refused"]
OTHERS: Final = "other"
NAMED: Final = 20
"""Clients with their own series."""
_REMEMBERED: Final = 1024
"""Clients whose activity is known."""
_HALF_LIFE: Final = 4096
"""After this many evaluations, earlier ones count half, so that last week's clients give way."""
_AHEAD: Final = 2.0
"""How much busier than the least busy named client another must be to take its place."""


class BusiestClients(Collector):
    """Counts the evaluations that clients ask for. For one thread.

    Args:
        metric: the metric's name, without `_total`.
        named: clients with a series of their own, at most.
    """

    def __init__(self, metric: str, named: int = NAMED) -> None:
        self._metric = metric
        self._most = named
        self._activity: dict[str, float] = {}
        self._since_halving = 0
        self._named: dict[str, Counter[Result]] = {}
        self._others: Counter[Result] = Counter()

    def add(self, client: str, result: Result, count: int) -> None:
        """Count evaluations that a client asked for."""
        self._activity[client] = self._activity.get(client, 0.0) + count
        self._forget(count)
        self._promote(client)
        self._named.get(client, self._others)[result] += count

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counts, for a scrape."""
        family = CounterMetricFamily(
            self._metric, "Evaluations asked for, by client: the busiest ones and `other`.", labels=["client", "result"]
        )
        for client, counts in (*self._named.items(), (OTHERS, self._others)):
            for result, count in sorted(counts.items()):
                family.add_metric([client, result], count)
        yield family

    def _promote(self, client: str) -> None:
        """Give a client a series, if one is free or it is much busier than a client that has one."""
        if client in self._named:
            return
        if len(self._named) >= self._most:
            least = min(self._named, key=lambda name: self._activity.get(name, 0.0))
            if self._activity.get(client, 0.0) < _AHEAD * self._activity.get(least, 0.0):
                return
            self._others += self._named.pop(least)
        self._named[client] = Counter()

    def _forget(self, count: int) -> None:
        """Let old activity count less, and drop the least active clients where too many are known."""
        self._since_halving += count
        if self._since_halving >= _HALF_LIFE:
            self._since_halving = 0
            self._activity = {client: activity / 2 for client, activity in self._activity.items()}
        if len(self._activity) > _REMEMBERED:
            busiest = sorted(self._activity, key=self._activity.__getitem__, reverse=True)[: _REMEMBERED // 2]
            self._activity = {client: self._activity[client] for client in busiest}
