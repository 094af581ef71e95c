"""Evaluations by client in the metrics: few series, exact totals, counts that never fall."""

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.server.busiest_clients import OTHERS, BusiestClients

ASKED = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(("admitted", "refused")), st.integers(1, 3000)))


def series(counts):
    (family,) = counts.collect()
    return {(one.labels["client"], one.labels["result"]): one.value for one in family.samples}


@given(ASKED)
def test_series_are_few_totals_are_exact_and_no_series_falls_while_it_is_there(asked):
    counts, total = BusiestClients("asked", named=3), 0
    before = series(counts)
    for client, result, count in asked:
        counts.add(f"client {client}", result, count)
        total += count
        now = series(counts)
        assert len({name for name, _ in now} - {OTHERS}) <= 3
        assert sum(now.values()) == total
        # One that lost its series and got it back began at zero, as a restarted process does.
        kept = before.keys() & now.keys() - {(f"client {client}", one) for one in ("admitted", "refused")}
        assert all(now[name] >= before[name] for name in kept)
        before = now


def test_who_floods_gets_a_series_whoever_came_before():
    counts = BusiestClients("asked", named=20)
    for number in range(5000):
        counts.add(f"10.0.0.{number % 100} name {number}", "admitted", 1)
    for _ in range(100):
        counts.add("10.0.0.7 flood", "refused", 64)
    # Until it was known as busy its evaluations were among the others'.
    assert series(counts)["10.0.0.7 flood", "refused"] >= 99 * 64
    assert sum(series(counts).values()) == 5000 + 6400


def test_a_client_of_long_ago_gives_way():
    counts = BusiestClients("asked", named=1)
    counts.add("old", "admitted", 4000)
    for _ in range(100):
        counts.add("new", "admitted", 400)
    assert {name for name, _ in series(counts)} == {"new", OTHERS}
