"""Whether what host code does depends on contents, from what its calls did in turn."""

import pytest

from warpsmith.evaluator.judge.host_execution.acts import TURNS, Act, Known, is_settled


def acts_of(does, calls):
    """Return the acts of host code that does `does(contents so far)` in each call."""
    names = [does(TURNS[: number + 1]) for number in range(calls)]
    return [Act(name.encode(), name.encode()) for name in names]


def settled_after(does, *known):
    """Return the number of calls after which it is settled that nothing depends on contents; None if it never is."""
    recorded = Known()
    for name in known:
        recorded.add(Act(name.encode(), name.encode()))
    return next((count for count in range(len(TURNS) + 1) if is_settled(acts_of(does, count), recorded)), None)


@pytest.mark.parametrize(
    "does",
    [
        lambda seen: "other" if seen[-1] else "usual",
        lambda seen: "other" if len(seen) > 1 and seen[-2] else "usual",
        lambda seen: "other" if any(seen[-2:]) else "usual",
        lambda seen: f"other {len(seen)}" if seen[-1] else "usual",
    ],
    ids=["the call itself", "the call after it", "both", "always something new"],
)
def test_what_only_a_content_causes_is_never_settled(does):
    assert settled_after(does, "usual") is None


@pytest.mark.parametrize(
    ("does", "calls"),
    [
        (lambda seen: "usual", 2),
        (lambda seen: "new", 3),
        (lambda seen: "new" if len(seen) > 1 else "usual", 3),
        (lambda seen: "new" if len(seen) % 2 else "usual", 3),
        (lambda seen: "new" if any(seen) else "usual", 3),
    ],
    ids=["as recorded", "something new since", "from the second call on", "every second call", "for ever"],
)
def test_what_calls_do_on_any_content_is_settled_soon(does, calls):
    """What is new then is replayed: a content may have caused it for ever."""
    assert settled_after(does, "usual") == calls
