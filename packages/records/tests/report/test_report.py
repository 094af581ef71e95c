import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import credit_row, step_row, trajectory_rows, turn_row

from warpsmith.records import RunReader, RunWriter, charts, write_report
from warpsmith.records.report import ReportError
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch

VOID = {"meta", "br", "input"}


class Balance(HTMLParser):
    """Fails on a tag that is not closed in order; collects the tags seen."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()


def page_of(run_dir, **options) -> str:
    out = run_dir / "report.html"
    write_report(RunReader(run_dir), out, **options)
    page = out.read_text(encoding="utf-8")
    Balance(page)
    return page


def test_the_page_shows_curves_rates_verdicts_and_trajectories(run_dir):
    page = page_of(run_dir, trajectories=1)
    for text in ("correct at the end", "loss", "reward_mean", "queue/depth", "compile_error", "train: most improved"):
        assert text in page
    assert "Held-out problems, before and after" not in page


def test_the_page_needs_nothing_from_elsewhere(run_dir):
    page = page_of(run_dir)
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "")
    assert not {"script", "link", "img", "iframe"} & Balance(page).seen
    assert "default-src 'none'" in page


def test_what_a_model_wrote_is_text(tmp_path):
    attack = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    row = turn_row(problem=attack, kernel=attack, completion=attack, messages=[{"role": attack, "content": attack}])
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch([row]))
    page = page_of(tmp_path)
    assert not {"script", "img"} & Balance(page).seen
    assert page.count("&lt;script&gt;") >= 5


def test_evaluations_and_training_have_sections_and_curves_of_their_own(tmp_path):
    with RunWriter(tmp_path) as writer:
        for step, statuses in ((0, ["incorrect"]), (2, ["correct"])):
            rows = trajectory_rows(f"h{step}", statuses, role="held_out", after_step=step)
            writer.append("turns", turns_batch(rows))
        for step in (1, 2):
            rows = trajectory_rows(f"t{step}", ["incorrect", "correct"], after_step=step - 1)
            writer.append("turns", turns_batch(rows))
            writer.append("credits", credits_batch([credit_row(f"t{step}", turn, step) for turn in (0, 1)]))
            writer.append("steps", steps_batch([step_row(step, collect_s=3.0, train_s=1.0)]))
    page = page_of(tmp_path)
    assert re.findall(r"<h2>(held_out.*|train)</h2>", page) == [
        "held_out before training",
        "held_out after 2 steps",
        "train",
    ]
    titles = re.findall(r"<figcaption>([^<]*?)\s*<span class=.legend", page)
    assert titles == [
        *("held_out: rates", "held_out: mean return"),
        *("training: mean reward by turn", "training: compiled", "training: correct"),
        *("advantages: spread", "seconds of a step by phase"),
    ]
    assert "correct at the end, step 0: 0<" in page and "correct at the end, step 2: 1<" in page
    assert "turn 1, step 2: 0.1<" in page and "turn 2, step 1: 0.8<" in page
    assert "median, step 1: 0.5<" in page and "collect, step 2: 3<" in page


def test_trajectories_can_be_filtered_by_part_and_outcome_without_a_script(run_dir):
    page = page_of(run_dir)
    for name in ("part-all", "part-0", "part-1", "outcome-correct", "outcome-failed"):
        assert f'id="{name}"' in page
    assert "body:has(#part-1:checked) .reading:not(.part-1)" in page
    shown = re.findall(r'<details class="trajectory (\w+)">', page)
    assert set(shown) == {"correct", "compiled", "failed"}
    assert set(re.findall(r"#outcome-(\w+):checked", page)) == {*shown, "invalid"}


def test_held_out_figures_are_compared(run_dir):
    held_out = {
        "before": {"correct": 0.25, "checkpoint": "a"},
        "after": {"correct": 0.5, "checkpoint": "b"},
        "interval": {"correct": [0.1, 0.4]},
    }
    (run_dir / "summary.json").write_text(json.dumps({"held_out": held_out}))
    row = re.search(r"<tr><td>correct</td>.*?</tr>", page_of(run_dir), re.DOTALL)
    assert row is not None
    assert re.findall(r"<td>(.*?)</td>", row[0]) == ["correct", "0.250", "0.500", "0.250", "0.100 to 0.400"]
    assert "checkpoint" not in page_of(run_dir)


def test_a_run_that_was_evaluated_before_training_alone_shows_that(run_dir):
    (run_dir / "summary.json").write_text('{"held_out": {"before": {"correct": 0.25}}}')
    assert "<td>correct</td><td>0.250</td><td>-</td>" in re.sub(r"\s*\n\s*", "", page_of(run_dir))


def test_a_summary_without_held_out_figures_is_left_alone(run_dir):
    (run_dir / "summary.json").write_text('{"steps": 3}')
    assert "before and after" not in page_of(run_dir)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"held_out": 3}',
        '{"held_out": {"before": 1}}',
        '{"held_out": {"before": {"x": 1}, "interval": {"x": [1]}}}',
    ],
)
def test_a_broken_summary_is_a_typed_error(run_dir, text):
    (run_dir / "summary.json").write_text(text)
    with pytest.raises(ReportError, match=r"summary\.json"):
        page_of(run_dir)


def test_torn_ends_and_damage_are_told_on_the_page(run_dir):
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    with stream.open("ab") as file:
        file.write(b"unfinished")
    assert "10 bytes after the last recorded batch" in page_of(run_dir)


def test_a_run_with_steps_alone_and_one_with_turns_alone_have_pages(tmp_path):
    with RunWriter(tmp_path / "steps") as writer:
        writer.append("steps", steps_batch([step_row(step) for step in range(40)]))
    with RunWriter(tmp_path / "turns") as writer:
        writer.append("turns", turns_batch(trajectory_rows("a", ["incorrect"])))
    assert "No turns are recorded yet" in page_of(tmp_path / "steps")
    assert "<svg" not in page_of(tmp_path / "turns")


def test_no_trajectories_are_shown_where_none_are_wanted(run_dir):
    assert "Trajectories to read" not in page_of(run_dir, trajectories=0)


def test_without_jinja_the_error_says_what_to_install(run_dir, tmp_path):
    code = f"""
import sys
sys.modules["jinja2"] = None
sys.argv = ["warpsmith-records", "report", {str(run_dir)!r}, "-o", {str(tmp_path / "x.html")!r}]
from warpsmith.records.cli import main
main()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "pip install 'warpsmith-records[analysis]'" in " ".join(found.stderr.split())


finite = st.floats(-1e12, 1e12)


@given(st.lists(st.none() | finite | st.just(float("nan")), max_size=60))
def test_curves_of_any_numbers_stay_inside_the_picture(values):
    chart = charts.line_chart("x", list(enumerate(values)))
    known = [value for value in values if value is not None and value == value]
    assert (chart is None) == (not known)
    if chart is None:
        return
    points = [tuple(map(float, p.split(","))) for line in (*chart.runs, chart.smooth) for p in line.split()]
    points += [(x, y) for x, y, _ in chart.dots]
    assert len(points) == 2 * len(known)
    assert all(charts.LEFT <= x <= charts.WIDTH - charts.RIGHT for x, _ in points)
    assert all(charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM for _, y in points)


@given(finite, finite)
def test_ticks_enclose_the_values_and_rise(one, other):
    low, high = sorted((one, other))
    marks = charts.ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), high - low) + charts.TINY
    assert marks[0] <= low + slack and marks[-1] >= high - slack
    assert marks == sorted(marks) and 2 <= len(marks) <= 8


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.25, 0.5, 0.75, 1.0]), (0, 0, [0, 0.25]), (3, 17, [0, 5, 10, 15, 20]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round(low, high, expected):
    assert charts.ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.12345, "0.1235"), (12345.6, "12,346"), (1e-6, "1e-06"), (3.14159e7, "3.14e+07")]
)
def test_numbers_are_short(value, text):
    assert charts.short_number(value) == text


def test_every_svg_of_the_page_is_well_formed(run_dir):
    found = re.findall(r"<svg.*?</svg>", page_of(run_dir), re.DOTALL)
    assert found
    for svg in found:
        ElementTree.fromstring(svg)
