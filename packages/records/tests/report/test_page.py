"""The report in a browser: what a reader sees, and that hostile text stays text."""

from pathlib import Path
from urllib.parse import quote

import pytest
from made_rows import trajectory_rows
from runs import ATTACK, write_evaluated_run, write_evaluation, write_hostile_run, write_step

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.report import write_report
from warpsmith.records.schema import turns_batch

VIEWS = ("overview", "grid", "trajectories", "timeline", "metrics")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("run")
    write_report(RunReader(write_evaluated_run(folder)), folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    write_report(RunReader(write_hostile_run(folder)), folder / "report.html")
    return (folder / "report.html").as_uri()


def test_the_first_screen_says_the_result_with_its_interval(browser, report):
    browser.open(report)
    said = browser.text(".headline")
    assert said.startswith("Held-out problems solved: 25.0% before training, 75.0% after 2 steps: +50.0 points (95 %")
    assert len(browser.texts(".figure")) == 4
    assert "Added by turns 2+\n+75.0 points" in browser.texts(".figure")[1]
    assert browser.texts(".contents a")[:2] == ["Course of the training", "What more turns bring"]


def test_progress_by_turn_and_figures_by_level_are_shown(browser, tmp_path):
    run = write_evaluated_run(tmp_path)
    write_report(RunReader(run), run / "report.html", by="level")
    browser.open((run / "report.html").as_uri())
    rows = browser.js("[...document.querySelectorAll('#turns .progress tbody tr')].map(r => r.innerText.split('\\t'))")
    assert rows[2:4] == [
        ["held_out after 2 steps", "1", "0.0%", "0.0%", "+0.5 (8)", "–", "+0.5 (8)"],
        ["held_out after 2 steps", "2", "75.0%", "75.0%", "–", "–", "–"],
    ]
    assert "Figures by level" in browser.text("#by h2")
    assert "train, level 2" in browser.text("#by")
    write_report(RunReader(run), run / "report.html")
    browser.open((run / "report.html").as_uri())
    assert "Figures by stage" in browser.text("#by h2"), "a run with several stages shows them unasked"
    assert "train, stage 2" in browser.text("#by")


def test_charts_are_drawn_and_constant_metrics_are_folded_away(browser, report):
    browser.open(report)
    browser.until("document.querySelectorAll('.plot svg.main-svg').length >= 2")
    browser.go("metrics")
    assert "queue/depth" in browser.until("document.querySelector('.charts')?.innerText", lambda text: "queue" in text)
    assert "health/constant" not in browser.text(".charts")
    assert "metrics that are constant over the run" in browser.text("details summary")
    assert browser.complaints() == []


def test_search_and_filters_narrow_the_list_and_stand_in_the_address(browser, report):
    browser.open(report, "trajectories")
    assert browser.text("#count") == "20 of 20 trajectories"
    browser.type("#search", "train_1")
    browser.until("document.getElementById('count').innerText", lambda text: text == "2 of 20 trajectories")
    assert "q=train_1" in browser.js("location.hash")
    for query, count in {
        "level=2": 2, "stage=1": 2, "status=compile_error": 8, "turn=2&status=correct": 10, "turn=1&status=correct": 0,
        "flag=slower_than_reference": 2, "speedup=2": 2, "outcome=solved": 10, "problem=held_0": 2, "role=train": 4,
    }.items():  # fmt: skip
        browser.go(f"trajectories?{query}")
        browser.until("document.getElementById('count').innerText", lambda text, n=count: text.startswith(f"{n} of 20"))


def test_a_trajectory_opens_from_the_list_with_turns_side_by_side_and_a_diff(browser, report):
    browser.open(report, "trajectories?q=step-2/1")
    browser.js("document.querySelector('.list .row:not(.head)').click()")
    browser.until("document.querySelectorAll('.turn').length", lambda count: count == 2)
    lefts = browser.js("[...document.querySelectorAll('.turn')].map(e => e.getBoundingClientRect().left)")
    assert lefts[0] < lefts[1]
    assert "advantage\n0.5" in browser.text(".turn")
    browser.press("2")
    browser.until("document.querySelectorAll('.line.added').length", lambda count: count == 1)
    assert browser.texts(".line.removed") == ["- x = 1"]
    assert browser.texts(".line.added") == ["+ x = 2"]
    browser.press("4")
    assert "-0.1" in browser.until("document.querySelector('.tokens span')?.title")


def test_figures_of_a_verdict_are_named_with_their_values(browser, tmp_path):
    rows = trajectory_rows("t", ["correct"])
    rows[0]["verdict"]["figures"] = [{"name": "bound_share", "value": 0.25}, {"name": "launches", "value": 2.0}]
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch(rows))
    write_report(RunReader(tmp_path), tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri(), "trajectory?key=t&mode=verdict")
    assert "bound_share 0.25, launches 2" in browser.text(".turn table")


def test_a_run_of_many_steps_and_evaluations_keeps_to_a_screen(browser, tmp_path):
    with RunWriter(tmp_path) as writer:
        for step in range(1, 71):
            if step % 10 == 1:
                write_evaluation(writer, step - 1, 2)
            write_step(writer, step)
    write_report(RunReader(tmp_path), tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    assert [text.split(":")[0] for text in browser.texts("#turns > p:has(b)")] == [
        "held_out before training", "held_out after 60 steps", "train",
    ]  # fmt: skip
    assert browser.text("#turns summary") == "5 evaluations in between"
    browser.js("document.querySelector('#verdicts').scrollIntoView()")
    browser.until("document.querySelectorAll('#verdicts .plot svg.main-svg').length >= 2")
    # Each category is one area; bars would be one element a step.
    assert browser.js("document.querySelectorAll('#verdicts .bars .point').length") == 0
    assert browser.complaints() == []


def test_keys_move_between_trajectories_and_back_to_the_list(browser, report):
    browser.open(report, "trajectories?role=train")
    for key in ("j", "j", "Enter"):
        browser.press(key)
    browser.until("document.querySelector('.reader h1')?.innerText", lambda text: text == "train_1")
    browser.press("j")
    browser.until("document.querySelector('.reader .soft').innerText", lambda text: text == "3 of 4")
    browser.press("Escape")
    browser.until("location.hash", lambda place: place == "#trajectories?role=train")


def test_a_cell_of_the_grid_opens_its_trajectory(browser, report):
    browser.open(report, "grid")
    browser.js("document.querySelector('.grid').focus()")
    browser.press("ArrowDown")
    assert browser.text(".grid-says").startswith("held_1, held_out after 0: 1 of 1 solved")
    browser.press("Enter")
    browser.until("document.querySelector('.reader h1')?.innerText", lambda text: text == "held_1")


def test_the_timeline_shows_a_step_and_recorded_device_metrics(browser, report):
    browser.open(report, "timeline?step=1")
    assert "Timeline of step 1" in browser.text("h1")
    assert "wait for batch 3 s · train 1 s" in browser.text(".bar")
    captions = [" ".join(text.split()) for text in browser.texts("#devices figcaption")]
    assert "gpu_0/utilization 70.0%" in captions


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_window(browser, report, width, dark):
    browser.resize(width, 844, dark=not dark)
    browser.open(report)
    browser.resize(width, 844, dark=dark)
    browser.until("document.documentElement.dataset.theme", lambda theme: theme == ("dark" if dark else "light"))
    for view in (*VIEWS, "trajectory?key=step-1/1"):
        browser.go(view)
        browser.until("document.querySelector('main h1')")
        assert browser.js("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, view


def test_hostile_text_is_shown_as_text_in_every_view(browser, hostile):
    browser.open(hostile)
    for view in (*VIEWS, *(f"trajectory?key={ATTACK_KEY}&mode={mode}" for mode in MODES)):
        browser.go(view)
        browser.until("document.querySelector('main h1')")
        if view.startswith("trajectory"):
            browser.until("document.querySelector('.turn')")
        elif view in ("overview", "metrics", "timeline"):
            browser.until("document.querySelector('.plot svg.main-svg')")
        assert browser.js("window.owned") is None
        assert browser.js("document.querySelectorAll('#app img, #app script, #app iframe').length") == 0
    assert ATTACK in browser.js("document.querySelector('main').textContent")
    assert browser.complaints() == []


MODES = ("kernel", "diff", "completion", "tokens", "prompt", "verdict")
ATTACK_KEY = quote(f"{ATTACK}0", safe="")


def test_texts_that_were_left_out_are_said_to_be(browser, tmp_path):
    run = write_evaluated_run(tmp_path)
    write_report(RunReader(run), run / "report.html", trajectories=0)
    browser.open((run / "report.html").as_uri())
    assert "the texts of 20 are left out" in browser.text("#result")
    browser.go("trajectory?key=step-1/1")
    assert "The texts of this trajectory are left out of this file" in browser.text(".turns .note")


def test_no_source_of_the_page_assigns_markup():
    sources = Path(write_report.__code__.co_filename).parent / "app"
    scripts = sorted(sources.glob("*.js"))
    assert len(scripts) > 10
    for script in scripts:
        text = script.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, script
