"""Prometheus metrics, in the server's own registry."""

from dataclasses import fields
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from warpsmith.evaluator.server.admission import Admission
from warpsmith.evaluator.server.busiest_clients import BusiestClients
from warpsmith.evaluator.server.cache import VerdictCache
from warpsmith.evaluator.verdict import Seconds, Verdict

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
PHASES: Final = tuple(field.name for field in fields(Seconds) if field.name not in {"wait", "age"})
"""Of these, `workers` has the starts of workers and of their contexts, `lease` the time spent waiting for the device.

`alone`, `shared` and `driver` say how evaluations had the device, and the same with `_wait` how long they waited."""
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counts requests and verdicts; the gauges read admission and cache on each scrape."""

    def __init__(self, admission: Admission, cache: VerdictCache) -> None:
        self._admission = admission
        self.registry = CollectorRegistry()
        prefix = "warpsmith_evaluator"
        self.requests = Counter(
            f"{prefix}_requests", "Requests answered.", ["method", "route", "code"], registry=self.registry
        )
        self.request_seconds = Histogram(
            f"{prefix}_request_seconds", "Time from a request to its response.", ["route"], buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.verdicts = Counter(f"{prefix}_verdicts", "Verdicts by status.", ["status"], registry=self.registry)
        self.slot_seconds = Histogram(
            f"{prefix}_slot_seconds", "Time that evaluations held a slot.", buckets=_SECONDS, registry=self.registry
        )
        self.wait_seconds = Histogram(
            f"{prefix}_wait_seconds", "Time that evaluations waited for a slot.", buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.phase_seconds = Histogram(
            f"{prefix}_phase_seconds", "Time of evaluations by phase; phases overlap.", ["phase"], buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.abandoned = Counter(f"{prefix}_abandoned", "Requests whose client went away.", registry=self.registry)
        self.faults = Counter(f"{prefix}_memory_faults", "Memory faults of candidates.", registry=self.registry)
        self.moved = Counter(f"{prefix}_moved", "Evaluations restarted on another device.", registry=self.registry)
        self.judges_lost = Counter(f"{prefix}_judges_lost", "Judge processes that were lost.", registry=self.registry)
        self.cache = Counter(
            f"{prefix}_cache_lookups", "Lookups of cached verdicts.", ["result"], registry=self.registry
        )
        cached = Gauge(f"{prefix}_cache_entries", "Cached verdicts.", registry=self.registry)
        cached.set_function(lambda: len(cache))
        self._of_device = {
            name: Gauge(f"{prefix}_device_{name}", text, ["device"], registry=self.registry)
            for name, text in {
                "in_service": "1 if a device takes evaluations, 0 if it restarts or is quarantined.",
                "running": "Evaluations on a device.",
                "failures_in_a_row": "Consecutive failures of the device itself.",
            }.items()
        }
        running = Gauge(f"{prefix}_running", "Evaluations in a slot.", registry=self.registry)
        running.set_function(lambda: admission.running)
        waiting = Gauge(f"{prefix}_waiting", "Evaluations that wait for a slot.", registry=self.registry)
        waiting.set_function(lambda: admission.waiting)
        clients = Gauge(f"{prefix}_clients", "Clients whose evaluations wait or run.", registry=self.registry)
        clients.set_function(lambda: admission.share.clients)
        self.clients = BusiestClients(f"{prefix}_client_evaluations")
        self.registry.register(self.clients)
        slots = Gauge(f"{prefix}_slots", "Evaluations that run at once.", registry=self.registry)
        slots.set_function(lambda: admission.size)

    def count(self, verdict: Verdict) -> None:
        """Count a verdict, and the seconds of each of its phases unless it is a cached one's."""
        self.verdicts.labels(verdict.status).inc()
        if verdict.seconds.age:
            return
        for phase in PHASES:
            if seconds := getattr(verdict.seconds, phase):
                self.phase_seconds.labels(phase).observe(seconds)

    def exposition(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        for lane in self._admission.lanes:
            values = {"in_service": lane.state == "open", "running": lane.running, "failures_in_a_row": lane.troubles}
            for name, value in values.items():
                self._of_device[name].labels(str(lane.number)).set(value)
        return generate_latest(self.registry)
