"""Whose evaluation is next, of several clients."""

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.server.fair_share import FairShare

COST = st.floats(0.01, 10.0)


def spend(share, client, seconds, expected=5.0):
    share.begin(client, expected)
    share.end(client, expected, seconds)


@given(costs=st.dictionaries(st.sampled_from("abcde"), COST, min_size=2), rounds=st.integers(1, 200))
def test_clients_that_always_wait_use_the_same_up_to_one_evaluation(costs, rounds):
    share = FairShare()
    for client in costs:
        share.join(client)
    used = dict.fromkeys(costs, 0.0)
    for _ in range(rounds):
        client = share.next_of(costs)
        spend(share, client, costs[client])
        used[client] += costs[client]
    # The least served one was chosen each time, so nobody is ahead by more than its own last evaluation.
    assert max(used[client] - costs[client] for client in costs) <= min(used.values()) + 1e-6


def test_evaluations_that_run_at_once_alternate_before_their_costs_are_known():
    share = FairShare()
    for client in "ab":
        share.join(client)
    began = []
    for _ in range(6):
        began.append(share.next_of("ab"))
        share.begin(began[-1], 5.0)
    assert sorted(began[:2]) == sorted(began[2:4]) == sorted(began[4:]) == ["a", "b"]


def test_a_newcomer_is_next_whatever_was_expected_of_what_runs():
    share = FairShare()
    share.join("flood")
    share.begin("flood", 5.0)
    share.join("new")
    share.end("flood", 5.0, 0.1)
    assert share.next_of(["flood", "new"]) == "new"


def test_time_of_absence_is_not_saved():
    share = FairShare()
    share.join("a")
    spend(share, "a", 100.0)
    share.join("b")
    assert share.used("b") == 100.0


def test_leaving_and_coming_back_gains_nothing():
    share = FairShare()
    for client in "ab":
        share.join(client)
    spend(share, "a", 50.0)
    share.leave("a")
    share.join("a")
    assert share.next_of("ab") == "b"
    spend(share, "b", 60.0)
    assert share.next_of("ab") == "a"


@given(st.lists(st.tuples(st.sampled_from("jlc"), st.sampled_from("abcdefgh"), COST), max_size=100))
def test_what_is_kept_is_bounded_and_nobody_is_sent_back_in_time(steps):
    share, present = FairShare(), []
    floor = 0.0
    for action, client, cost in steps:
        if action == "j":
            share.join(client)
            present.append(client)
        elif action == "l" and client in present:
            share.leave(client)
            present.remove(client)
        elif action == "c" and client in present:
            spend(share, client, cost)
        assert share.clients == len(set(present))
        assert share._expected.keys() == set(present)
        if not present:
            floor = 0.0
            assert not share._used
            continue
        now = min(share.used(one) for one in present)
        assert now >= floor - 1e-9
        floor = now
        assert all(share.count(one) == present.count(one) for one in present)
