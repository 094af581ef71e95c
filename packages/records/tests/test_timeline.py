"""When a run did what: spans from records, how much happened at once, the picture and the trace."""

import datetime as dt
import itertools
import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import MORNING, step_row, turn_row

from warpsmith.records import RunReader, RunWriter, timeline
from warpsmith.records.errors import UsageError
from warpsmith.records.schema import steps_batch, turns_batch
from warpsmith.records.timeline_files import ONLY_IF_ANY, picture, trace, write_timeline


def at(seconds: float) -> dt.datetime:
    return MORNING + dt.timedelta(seconds=seconds)


def turn(name: str, step: int | None, begin: float, generate: float, evaluate: float | None, **changes):
    return turn_row(
        name, rollout_step=step, role="held_out" if step is None else "train",
        started_at=at(begin), generate_s=generate, compile_s=evaluate, wait_s=0.0, evaluate_s=evaluate, **changes,
    )  # fmt: skip


def step(number: int, begin: float, collect: float, train: float, sync: float):
    return {**step_row(number), "started_at": at(begin), "collect_s": collect, "train_s": train, "sync_s": sync}


@pytest.fixture
def asynchronous(tmp_path):
    """Two steps: while step 1 trains, the turns of step 2 are sampled; an evaluation before them."""
    run = tmp_path / "run"
    turns = [
        turn("h", None, 0, 2, 1),
        turn("a", 1, 10, 4, 1),
        turn("b", 1, 10, 2, 2),
        turn("c", 2, 16, 3, 2),
        turn("d", 2, 18, 4, None),
    ]
    with RunWriter(run) as writer:
        writer.append("turns", turns_batch(turns))
        writer.append("steps", steps_batch([step(1, 10, 5, 4, 1), step(2, 20, 2, 3, 1)]))
    return run


def test_spans_lie_on_one_clock_and_name_their_step(asynchronous):
    found = timeline.spans(RunReader(asynchronous))
    seen = [(span.phase, span.step, span.begin, span.end, span.name) for span in found]
    assert ("generate", None, 0, 2, "h, turn 1") in seen
    assert ("evaluate", None, 2, 3, "h, turn 1") in seen
    assert ("evaluate", 1, 14, 15, "a, turn 1") in seen
    assert ("wait", 1, 10, 15, "step 1") in seen
    assert ("train", 1, 15, 19, "step 1") in seen
    assert ("sync", 2, 25, 26, "step 2") in seen
    assert [span for span in seen if span[4].startswith("d")] == [("generate", 2, 18, 22, "d, turn 1")]
    assert [span.begin for span in found] == sorted(span.begin for span in found)


def test_the_overlap_is_what_happened_at_once(asynchronous):
    figures = timeline.overlap(timeline.spans(RunReader(asynchronous)))
    # Rollouts: 0 to 3, 10 to 15, 16 to 22; training and sync: 15 to 20, 22 to 26.
    assert figures == timeline.Overlap(
        wall_s=26, rollout_s=14, training_s=9, both_s=4, waited_s=7, share=pytest.approx(4 / 9)
    )


def test_a_run_is_cut_to_steps(asynchronous):
    found = timeline.spans(RunReader(asynchronous), range(2, 3))
    assert {span.step for span in found} == {2}
    assert found[0].begin == 0
    with pytest.raises(timeline.NoTimelineError, match="no turn and no step of steps 7 to 9"):
        timeline.spans(RunReader(asynchronous), range(7, 10))


@pytest.mark.parametrize(
    ("text", "found"),
    [("3-6", range(3, 7)), ("4", range(4, 5)), (" 2-2 ", range(2, 3)), (None, range(1, 3)), ("all", None)],
)
def test_steps_are_read(asynchronous, text, found):
    assert timeline.chosen_steps(RunReader(asynchronous), text) == found


@pytest.mark.parametrize(("steps", "found"), [([0], range(1)), ([0, 1], range(2)), ([*range(30)], range(10, 30))])
def test_a_run_that_counts_from_0_has_a_timeline_too(tmp_path, steps, found):
    with RunWriter(tmp_path) as writer:
        writer.append("steps", steps_batch([step_row(step) for step in steps]))
    assert timeline.chosen_steps(RunReader(tmp_path), None) == found


@pytest.mark.parametrize("text", ["", "6-3", "a", "1-", "-2", "1-2-3"])
def test_what_names_no_steps_is_refused(asynchronous, text):
    with pytest.raises(UsageError, match="is not a range of steps"):
        timeline.chosen_steps(RunReader(asynchronous), text)


@given(*[st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=12) for _ in range(2)])
def test_unions_and_what_they_have_in_common_are_those_of_sets(one, other):
    """Intervals of whole seconds, against sets of seconds."""
    unions = [timeline.merged((begin, begin + length) for begin, length in given_) for given_ in (one, other)]
    seconds = [
        {second for begin, length in given_ for second in range(begin, begin + length)} for given_ in (one, other)
    ]
    for union, expected in zip(unions, seconds, strict=True):
        assert {second for begin, end in union for second in range(begin, end)} == expected
        assert all(first[1] < second[0] for first, second in itertools.pairwise(union))
    both = timeline.common(*unions)
    assert {second for begin, end in both for second in range(begin, end)} == seconds[0] & seconds[1]


def test_the_picture_has_every_lane_and_is_well_formed(asynchronous):
    root = ElementTree.fromstring(picture(timeline.spans(RunReader(asynchronous)), "a <run>"))
    said = " ".join(root.itertext())
    assert "a <run>" in said
    assert "both at once 4.0 s (44% of training)" in said
    titles = {element.text for element in root.iter("{http://www.w3.org/2000/svg}title")}
    assert titles == {
        "generate, evaluation of the policy", "evaluate, evaluation of the policy",
        *(f"{phase}, step {number}" for phase in timeline.PHASES if phase not in ONLY_IF_ANY for number in (1, 2)),
    }  # fmt: skip


def test_the_height_is_how_many_turns_there_are_at_once(asynchronous):
    root = ElementTree.fromstring(picture(timeline.spans(RunReader(asynchronous)), "run"))
    shapes = {
        shape[0].text: [tuple(map(float, corner.split(","))) for corner in shape.attrib["points"].split()]
        for shape in root.iter("{http://www.w3.org/2000/svg}polygon")
    }
    heights = [y for _, y in shapes["generate, step 1"]]
    assert max(heights) - min(heights) == pytest.approx(90)
    assert all(points[0][1] == points[-1][1] == max(y for _, y in points) for points in shapes.values())


def test_no_two_spans_of_a_row_of_the_trace_overlap(asynchronous):
    events = [event for event in trace(timeline.spans(RunReader(asynchronous)))["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 15
    rows: dict[tuple[int, int], int] = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        place = (event["pid"], event["tid"])
        assert event["ts"] >= rows.get(place, 0)
        rows[place] = event["ts"] + event["dur"]
    assert {event["name"] for event in events} >= {"train 1", "sync 2", "generate 2", "evaluate"}


def test_a_file_of_another_kind_is_refused(asynchronous, tmp_path):
    with pytest.raises(UsageError, match="neither an image nor a trace"):
        write_timeline(timeline.spans(RunReader(asynchronous)), tmp_path / "out.png", "run")


def test_what_is_recorded_again_counts_once(asynchronous):
    with RunWriter(asynchronous) as writer:
        writer.append("steps", steps_batch([step(2, 30, 1, 1, 1)]))
    found = timeline.spans(RunReader(asynchronous), range(2, 3))
    assert [span.end - span.begin for span in found if span.phase == "train"] == [1]
    assert json.dumps(timeline.overlap(found).to_dict())


# The start, and windows of timings -----------------------------------------------------------------------------------


@pytest.fixture
def started(asynchronous):
    """The same run with two phases of its start, a window in step 1, and a line that a kill cut off."""
    morning = MORNING.timestamp()
    rows = [
        {"phase": "start", "name": "imports", "began": morning - 9, "ended": morning - 5, "step": None},
        {"phase": "start", "name": "Ray", "began": morning - 5, "ended": morning - 1, "step": None},
        {"phase": "time", "name": "window of 3 timings", "began": morning + 12, "ended": morning + 13, "step": 1},
    ]
    lines = [json.dumps(row) for row in rows]
    (asynchronous / timeline.PHASES_FILE).write_text("\n".join([*lines, lines[0][:20]]))
    return asynchronous


def test_the_start_and_windows_are_in_the_timeline(started):
    found = timeline.spans(RunReader(started))
    begun = [(span.phase, span.name, span.begin, span.end) for span in found if span.phase in ("start", "time")]
    assert begun == [
        ("start", "imports", 0, 4),
        ("start", "Ray", 4, 8),
        ("time", "window of 3 timings", 21, 22),
    ]
    assert [
        span.name for span in timeline.spans(RunReader(started), range(1, 2)) if span.phase in ("start", "time")
    ] == ["window of 3 timings"]


def test_only_a_run_with_a_recorded_start_has_a_lane_for_it(asynchronous, started):
    found = timeline.spans(RunReader(started))
    assert ">start</text>" in picture(found, "run")
    assert ">time</text>" in picture(found, "run")
    assert ">start</text>" not in picture([span for span in found if span.phase != "start"], "run")
    names = {event["args"]["name"] for event in trace(found)["traceEvents"] if event["ph"] == "M"}
    assert names == {"trainer", "rollouts", "start", "timing windows"}
