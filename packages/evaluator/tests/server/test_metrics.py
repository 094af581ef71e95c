"""What the server exposes to Prometheus, and the dashboard that draws it."""

import json
import re
from pathlib import Path

import pytest

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.server.admission import Admission, Lane
from warpsmith.evaluator.server.cache import VerdictCache
from warpsmith.evaluator.server.metrics import PHASES, Metrics
from warpsmith.evaluator.verdict import Seconds, Verdict

DASHBOARD = Path(__file__).parents[4] / "deploy" / "grafana" / "warpsmith-evaluator.json"
SAMPLE = re.compile(r"^(warpsmith_evaluator_\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@pytest.fixture
def metrics():
    return Metrics(Admission([Lane(0, 2)], queue=4), VerdictCache(8, EvaluatorConfig()))


def samples(metrics):
    """Return the value of each sample by name and labels."""
    return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(metrics.exposition().decode())}


def verdict(**seconds):
    return Verdict(status="correct", compiled=True, correct=True, seconds=Seconds(**seconds))


def test_each_phase_of_a_verdict_is_observed_and_those_of_a_cached_one_are_not(metrics):
    metrics.count(verdict(evaluate=2.0, workers=0.5, lease=0.25, wait=9.0))
    metrics.count(verdict(age=3.0))
    found = samples(metrics)
    sums = {labels: value for (name, labels), value in found.items() if name.endswith("phase_seconds_sum")}
    assert sums == {'phase="evaluate"': 2.0, 'phase="workers"': 0.5, 'phase="lease"': 0.25}
    assert found["warpsmith_evaluator_verdicts_total", 'status="correct"'] == 2


def test_clients_and_queue_are_read_at_each_scrape():
    admission = Admission([Lane(0, 1)], queue=4)
    metrics = Metrics(admission, VerdictCache(8, EvaluatorConfig()))
    admission.admit(2, "a")
    (place,) = admission.admit(1, "b")
    assert samples(metrics)["warpsmith_evaluator_clients", ""] == 2
    place.leave()
    found = samples(metrics)
    assert (found["warpsmith_evaluator_clients", ""], found["warpsmith_evaluator_waiting", ""]) == (1, 2)


def test_the_dashboard_draws_what_there_is(metrics):
    metrics.count(verdict(**dict.fromkeys(PHASES, 1.0)))
    metrics.requests.labels("GET", "/health", "200").inc()
    metrics.request_seconds.labels("/health").observe(0.1)
    metrics.cache.labels("hit").inc()
    metrics.clients.add("10.0.0.7 run", "admitted", 1)
    known = {name: dict.fromkeys(re.findall(r'(\w+)="', labels)) for name, labels in samples(metrics)}
    dashboard = json.loads(DASHBOARD.read_text())
    drawn = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for query in drawn for name in re.findall(r"warpsmith_evaluator_\w+", query)}
    assert names <= known.keys()
    for query in drawn:
        (name,) = re.findall(r"warpsmith_evaluator_\w+", query)
        by = re.search(r"by \(([^)]*)\)", query)
        assert set(by[1].split(", ") if by else ()) <= known[name].keys() | {"le"}, query
    # What an operator looks at first is on it.
    assert {"warpsmith_evaluator_waiting", "warpsmith_evaluator_phase_seconds_bucket"} <= names
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
