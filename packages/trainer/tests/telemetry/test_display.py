"""What a run shows: in a real terminal, in a file, and turn by turn."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from warpsmith.records.units import duration
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.telemetry.live_view import trend, view
from warpsmith.trainer.telemetry.phase_log import PhaseLog
from warpsmith.trainer.telemetry.recent_steps import RecentWork

STEP = {
    "reward_mean": 0.5, "turn_1/reward_mean": 0.4, "turn_2/reward_mean": 0.6, "solved_rate": 0.625, "correct_rate": 0.5,
    "compiled_rate": 0.75, "collect_s": 6.0, "train_s": 3.0, "sync_s": 1.0, "turns": 8.0, "invalid_turns": 0.0,
    "sampled_groups": 2.0, "completion_length_max": 9.0, "rounds": 1.0,
}  # fmt: skip
TURN = {
    "turn": 0, "problem": "add", "reward": 0.5, "return": 0.5, "completion_ids": [1, 2], "evaluate_s": 0.1,
    "verdict": {"compiled": True, "correct": True, "runtime_ms": 0.0012, "speedup": 2.0}, "invalid_reason": None,
}  # fmt: skip
RUN = f"""
import sys, time
from warpsmith.trainer.telemetry.display import RunDisplay
row = {TURN!r}
with RunDisplay("a run", 4, sys.argv[1], shown=sys.argv[2] == "0") as display:
    display.enter("collect step 1")
    display.work.collect("step 1", 2)
    display.turn(row)
    display.trajectory([row])
    time.sleep(0.6)
    display.step(1, {STEP!r})
    display.warn("step 1, no_spread: no signal.")
    display.say("Held out: better")
    time.sleep(0.6)
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def text_of(work: RecentWork, width: int = 120) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(view("a run", work, ["GPU 0 87 %"]))
    return console.export_text()


def test_the_view_names_the_phase_of_the_start():
    work, phases = RecentWork(4), PhaseLog()
    phases.entered = lambda name: work.enter(f"start: {name}")
    with phases.start("DeepSpeed"):
        assert "now: start: DeepSpeed, for" in text_of(work)


def test_a_small_loss_is_not_shown_as_zero():
    work = RecentWork(4)
    work.step({**STEP, "loss": -4.5e-05})
    assert "-4.5e-05" in text_of(work)


def shown_in_a_file(mode: str, rank: str = "0") -> str:
    ended = subprocess.run([sys.executable, "-c", RUN, mode, rank], capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    return ended.stderr


def shown_in_a_terminal(mode: str) -> str:
    """Return the text that a terminal of 120 columns receives, without control sequences."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen([sys.executable, "-c", RUN, mode, "0"], stderr=follower, env=environment)
    os.close(follower)
    received = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # The other side was closed.
            break
        received += part
    os.close(leader)
    assert process.wait(60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", received.decode())


def test_a_terminal_gets_a_live_view_with_warnings_and_results_above_it() -> None:
    said = shown_in_a_terminal("auto")
    assert "step 0 of 4" in said
    assert "1 of 2 trajectories" in said
    assert "step 1 of 4" in said
    assert "solved" in said
    assert "62.5%" in said
    assert re.search(r"(?<!last )warning: step 1, no_spread: no signal\.\r", said)
    assert "last warning: step 1, no_spread" in said
    assert "Held out: better\r" in said
    assert "[Step 1" not in said
    assert "[Turn 1]" not in said


def test_a_file_gets_one_block_a_step() -> None:
    said = shown_in_a_file("auto")
    assert said.startswith("[Step 1 of 4] reward 0.500 (by turn 0.400 0.600), compiled 0.75, correct 0.50, solved 0.62")
    assert re.search(r"collect 6.0s, train 3.0s, sync 1.0s; about \d.\d s left\n", said)
    assert said.endswith("warning: step 1, no_spread: no signal.\nHeld out: better\n")
    assert "[Turn 1]" not in said


def test_turns_are_shown_on_request_and_other_ranks_are_silent() -> None:
    said = shown_in_a_file("turns")
    assert "[Turn 1] add: Compile:✓ Correct:✓ Runtime:1.20us Speedup:2.00x Reward:0.500\n" in said
    assert "=== Final Trajectory Summary for add ===" in said
    assert shown_in_a_file("turns", rank="1") == ""


def test_the_time_left_follows_the_recent_steps() -> None:
    clock = Clock()
    work = RecentWork(10, clock=clock)
    assert work.left_s() is None
    clock.now += 50.0  # the start does not count
    work.resume_at(4)
    for _ in range(2):
        clock.now += 10.0
        work.step(STEP)
    assert work.left_s() == pytest.approx(40.0)
    clock.now += 6.0
    assert work.left_s() == pytest.approx(34.0)
    clock.now += 60.0
    assert work.left_s() == pytest.approx(30.0), "a slow step does not finish the ones after it"


def test_before_the_first_step_the_time_follows_the_turns_of_the_batch_being_sampled() -> None:
    clock = Clock()
    work = RecentWork(5, clock=clock, step_turns=24)
    work.collect("held out", 16, most_turns=48)
    clock.now += 3.0
    for _ in range(5):
        work.turn({})
    assert work.rollouts_left_s() is None, "less than an eighth"
    work.turn({})
    assert work.rollouts_left_s() == pytest.approx(5 * 24 * 0.5)
    assert "about 1 min 0 s of rollouts left if none ends early" in text_of(work)
    for _ in range(16):
        work.trajectory()
    assert work.rollouts_left_s() is None, "the next batch has not begun"
    work.step(STEP)
    assert "of rollouts" not in text_of(work)
    assert re.search(r"about .* left", text_of(work))
    for _ in range(4):
        work.step(STEP)
    assert "left" not in text_of(work), "an evaluation may follow the last step"


@pytest.mark.parametrize(("mode", "times"), [("steps", 1), ("turns", 1), ("live", 0)])
def test_the_expected_time_is_said_once(mode: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    display = RunDisplay("a run", 5, mode, shown=True, step_turns=24)
    monkeypatch.setattr(display, "say", said.append)
    display.work.collect("step 1", 8, most_turns=24)
    for _ in range(24):
        display.turn(TURN)
    about = [line for line in said if line.startswith("Time: the rollouts of 5 steps take about ")]
    assert len(about) == times


def test_batches_that_overlap_are_counted_one_after_another() -> None:
    work = RecentWork(10)
    work.collect("step 1", 2)
    work.collect("step 2", 2)
    work.collect("step 2", 1)  # another round of the same batch
    for _ in range(3):
        work.trajectory()
    assert [(one.label, one.done, one.trajectories) for one in work.collections] == [("step 1", 2, 2), ("step 2", 1, 3)]
    work.collect("step 3", 2)
    assert [one.label for one in work.collections] == ["step 2", "step 3"]


def test_rates_are_over_the_last_minute() -> None:
    clock = Clock()
    work = RecentWork(1, clock=clock)
    for _ in range(600):
        clock.now += 1.0
        work.turn({"completion_ids": [0] * 50, "evaluate_s": 0.5, "generate_s": 2.0})
    rates = work.rates()
    assert rates is not None
    assert rates == pytest.approx((50.0, 0.5, 2.0), rel=0.05)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_view_fits_every_width(width: int) -> None:
    work = RecentWork(4)
    work.collect("step 2", 128)
    work.step(STEP)
    work.warning = "step 1, no_spread: " + "no signal. " * 40
    lines = text_of(work, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert any("GPU 0" in line for line in lines)


@example([-1.7e308, 1.7e308, 0.0])
@example([5e-324, 0.0])
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=60))
def test_a_trend_has_a_block_for_each_finite_value(values: list[float]) -> None:
    finite = [value for value in values if abs(value) < float("inf")]
    drawn = trend(values)
    assert len(drawn) == (min(len(finite), 24) if len(finite) > 1 else 0)


@given(st.floats(0, 1e7))
def test_a_duration_keeps_its_size(seconds: float) -> None:
    parts = re.findall(r"([\d.]+) (s|min|h)", duration(seconds))
    back = sum(float(number) * {"s": 1, "min": 60, "h": 3600}[unit] for number, unit in parts)
    assert back == pytest.approx(seconds, abs=0.06 if seconds < 10 else 0.51 if seconds < 3599 else 60)
