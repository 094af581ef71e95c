"""Which earlier calls a call rests on, and that a call is compared with others whatever its memory is numbered."""

from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.recordings.history import STATE_BEFORE, Called, History
from warpsmith.evaluator.reference.form import Form

FORM = Form([1], 64)
OTHER = Form([2], 64)


def tensor(memory, number, *, dtype="float32"):
    return ["tensor", memory, number, dtype, [4], [1], 0]


def call(*events, output, form=FORM):
    return Called(form, {}, list(events), [output])


def doubled(number, form=FORM):
    """A call that allocates its output and launches a kernel on it."""
    out = tensor("fresh", number)
    launch = ["launch", "kernel", [1], {"x": tensor("inputs", 0), "out": out}, {}]
    return call(["alloc", number, 16], launch, output=out, form=form)


def reading(kept, number):
    """A call that reads memory of an earlier one."""
    out = tensor("fresh", number)
    launch = ["launch", "kernel", [1], {"x": ["tuple", [tensor("fresh", kept)]], "out": out}, {}]
    return call(["alloc", number, 16], launch, output=out)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_calls_that_do_the_same_have_one_pattern(one, two):
    history = History()
    assert history.pattern(doubled(one)) == history.pattern(doubled(two))
    assert history.pattern(doubled(one)) != history.pattern(doubled(one, OTHER))


def test_a_call_that_uses_kept_memory_has_another_pattern_and_rests_on_its_maker():
    history = History()
    first, apart, later = doubled(0), doubled(1), reading(0, 2)
    history.calls = [first, apart]
    assert history.pattern(later) != history.pattern(first)
    assert history.dependencies(later) == [first]
    assert history.dependencies(doubled(3)) == []


def test_a_call_rests_on_all_that_those_rest_on_that_it_rests_on():
    history = History()
    history.calls = [doubled(0), reading(0, 1), doubled(2), reading(1, 3)]
    assert history.dependencies(reading(3, 4)) == [history.calls[0], history.calls[1], history.calls[3]]


def test_an_output_that_is_kept_memory_counts_as_its_use():
    history = History()
    history.calls = [doubled(0)]
    assert history.dependencies(call(output=tensor("fresh", 0))) == history.calls


def test_earlier_calls_come_first_and_on_inputs_of_their_own():
    history = History()
    history.calls = [doubled(0), reading(0, 1)]
    later = reading(1, 2)
    events, past = history.with_dependencies(later)
    assert [one.name for one in past] == ["before0", "before1"]
    assert events[:2] == [
        ["alloc", 0, 16],
        ["launch", "kernel", [1], {"x": tensor("before0", 0), "out": tensor("fresh", 0)}, {}],
    ]
    assert events[-2:] == later.events


def test_parameters_of_earlier_calls_are_others():
    history = History()
    kept = call(["alloc", 0, 16], ["copy", tensor("fresh", 0), tensor("state", 64)], output=tensor("fresh", 0))
    history.calls = [kept]
    events, _ = history.with_dependencies(call(output=tensor("fresh", 0)))
    assert events[1] == ["copy", tensor("fresh", 0), tensor(STATE_BEFORE, 64)]


@given(st.recursive(st.integers() | st.text() | st.none(), lambda inner: st.lists(inner, max_size=4), max_leaves=30))
def test_any_list_of_events_is_read_without_an_error(events):
    history = History()
    said = Called(FORM, {}, events if isinstance(events, list) else [events], [])
    assert isinstance(history.pattern(said), bytes)
    history.calls = [said]
    own, _ = history.with_dependencies(doubled(0))
    assert own


def test_an_output_in_the_memory_of_a_written_buffer_is_state():
    own, read, other = tensor("fresh", 0), tensor("state", 0), tensor("fresh", 1)
    for outputs, buffers, is_state in (
        ([own, own], 1, True),
        ([{"kept": [other, own]}, read, own], 2, True),
        ([other, own], 1, False),
        ([read, read], 1, False),
        ([own, other], 0, False),
    ):
        assert Called(FORM, {}, [], outputs, buffers).returns_written_state is is_state
