"""How long the live page keeps its main thread busy for each action, with tens of thousands of turns.

A recorded GRPO run is repeated until it has `--turns` turns, with other step numbers and made-up speedups. The live
page shows it in a headless Chromium, whose own trace has the wall and processor time of every task of the main thread:
what a user feels as lag is the longest one. Needs Chromium, chromedriver and the extra `serve` of warpsmith-records.

    python benchmarks/live_page.py runs/demo/grpo --out benchmarks/results/live_page.json
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from _machine import describe, skip, write_result

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch

sys.path.insert(0, str(Path(__file__).parents[1] / "packages/records/tests/support"))
from browser import ARGUMENTS, Page

LEAST_MS: Final = 16.0
"""Shorter tasks fit into a frame of the screen, and are not listed."""
START_S: Final = 60.0
SETTLE_S: Final = 2.0
MARK: Final = "W:"
COPIED: Final = ("config.json", "start.json", "problems.jsonl", "summary.json")

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a recorded GRPO run")
    parser.add_argument("--turns", type=int, default=50_000, help="turns that the page shows (default 50,000)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/live_page.json")
    options = parser.parse_args()
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            skip(f"this needs {program}")
    result = describe(["warpsmith-records", "plotly", "starlette"])
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "big"
        turns, steps = grow(options.run, big, options.turns)
        print(f"{turns} turns of {steps} steps", flush=True)
        with served(big) as address:
            actions = measured(address)
    write_result(options.out, {**result, "turns": turns, "steps": steps, "least_ms": LEAST_MS, "actions": actions})
    for name, longest in actions.items():
        print(f"{name:32} {longest['wall_ms']:6.0f} ms ({longest['cpu_ms']:.0f} ms of processor time)")


def grow(source: Path, out: Path, wanted: int) -> tuple[int, int]:
    """Write a run that repeats another one's steps until it has `wanted` turns; return its turns and steps."""
    reader, rng = RunReader(source), random.Random(0)
    tables = {name: reader.table(name, latest=True).to_pylist() for name in ("turns", "credits", "steps")}
    turns, credits = by_step(tables["turns"], "rollout_step"), by_step(tables["credits"], "step")
    written = round_ = 0
    with RunWriter(out) as writer:
        while written < wanted:
            for old in tables["steps"]:
                step = round_ * len(tables["steps"]) + old["step"]
                new = [as_step(row, step, round_, rng) for row in turns[old["step"]]]
                writer.append("turns", turns_batch(new))
                writer.append("credits", credits_batch([renamed(row, step) for row in credits[old["step"]]]))
                began = old["started_at"] + timedelta(hours=round_)
                writer.append("steps", steps_batch([{**old, "step": step, "started_at": began}]))
                written += len(new)
            round_ += 1
    for name in COPIED:
        if (source / name).exists():
            shutil.copy(source / name, out / name)
    return written, round_ * len(tables["steps"])


def by_step(rows: Iterable[Row], column: str) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row[column]:
            found[row[column]].append(row)
    return found


def renamed(row: Row, step: int) -> Row:
    return {**row, "step": step, "trajectory": f"{step}/{row['trajectory']}"}


def as_step(row: Row, step: int, round_: int, rng: random.Random) -> Row:
    """Return a turn as one of another step; a right one gets a speedup, so that there is something to sort by."""
    verdict = row["verdict"]
    if verdict and verdict["correct"]:
        speedup = rng.lognormvariate(0.3, 0.6)
        verdict = {**verdict, "speedup": speedup, "runtime_ms": 0.02 / speedup, "reference_ms": 0.02}
    return {
        **row, "verdict": verdict, "rollout_step": step, "after_step": step - 1, "level": 1 + rng.randrange(3),
        "trajectory": f"{step}/{row['trajectory']}", "group": f"{step}/{row['group']}",
        "started_at": row["started_at"] + timedelta(hours=round_),
    }  # fmt: skip


@contextmanager
def served(run: Path) -> Iterator[str]:
    """Start `warpsmith-records serve` on a free port, and give its address."""
    command = [sys.executable, "-m", "warpsmith.records", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("http"):
                    yield line.split()[0]
                    return
            raise SystemExit("the server ended before it had an address")
        finally:
            process.terminate()


@contextmanager
def traced_page() -> Iterator[Page]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    categories = {"traceCategories": "toplevel,blink.user_timing", "enableNetwork": False, "enablePage": False}
    options.add_experimental_option("perfLoggingPrefs", categories)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield Page(driver)
        finally:
            driver.quit()


def measured(address: str) -> dict[str, dict[str, float]]:
    """Return, for each action, wall and processor time of the main thread's longest task, in milliseconds.

    Chromium's buffer of traces is small, so each view has a browser of its own.
    """
    found: dict[str, dict[str, float]] = {}
    for view, actions in VIEWS.items():
        with traced_page() as page:
            page.resize(1600, 900)
            page.open(address, view)
            mark(page, f"load, then {view}", START_S / 8)
            for name, act in actions:
                act(page)
                mark(page, name)
            if complaints := page.complaints():
                raise SystemExit(f"the page complains: {complaints}")
            found.update(longest_tasks(page))
    return found


def mark(page: Page, name: str, seconds: float = SETTLE_S) -> None:
    time.sleep(seconds)
    page.js(f"(performance.mark({MARK + name!r}), 1)")


def longest_tasks(page: Page) -> Iterator[tuple[str, dict[str, float]]]:
    page.driver.get("about:blank")
    time.sleep(SETTLE_S)
    tasks: list[tuple[int, float, float]] = []
    marks: list[tuple[int, str]] = []
    for entry in page.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        event = message["params"] if message["method"] == "Tracing.dataCollected" else {}
        if event.get("name", "").endswith("RunTask") and "tdur" in event:
            tasks.append((event["ts"], event["dur"] / 1000, event["tdur"] / 1000))
        elif event.get("name", "").startswith(MARK):
            marks.append((event["ts"], event["name"].removeprefix(MARK)))
    since = 0
    for at, name in sorted(marks):
        # Other processes of the browser trace too; the page's main thread is the one that is busy.
        own = [(wall, cpu) for began, wall, cpu in tasks if since <= began < at and cpu >= LEAST_MS]
        wall, cpu = max(own, default=(0.0, 0.0))
        yield name, {"wall_ms": round(wall, 1), "cpu_ms": round(cpu, 1)}
        since = at


def scroll_list(page: Page) -> None:
    for i in range(20):
        page.js(f"(document.querySelector('.list').scrollTop = {i * 3000}, 1)")
        time.sleep(0.03)


def scroll_page(page: Page) -> None:
    for y in range(0, 6000, 400):
        page.js(f"scrollTo(0, {y})")
        time.sleep(0.1)


def to(view: str) -> Callable[[Page], None]:
    return lambda page: page.go(view)


def key(name: str) -> Callable[[Page], None]:
    return lambda page: page.press(name)


Actions = tuple[tuple[str, Callable[[Page], Any]], ...]
VIEWS: Final[dict[str, Actions]] = {
    "trajectories": (
        ("filter by outcome", to("trajectories?outcome=solved")),
        ("filter by status and turn", to("trajectories?status=incorrect&turn=2")),
        ("all trajectories again", to("trajectories")),
        ("sort by speedup", to("trajectories?sort=-speedup")),
        ("sort by problem", to("trajectories?sort=problem")),
        ("sort and filter by level", to("trajectories?sort=-return&level=2")),
        ("scroll the list 20 times", scroll_list),
    ),
    "trajectories?turn=1": (
        ("search, letter by letter", lambda page: page.type("#search", "softplus")),
        ("clear the search", to("trajectories")),
        ("open a trajectory", lambda page: page.js("document.querySelector('.list .row:not(.head)').click()")),
        ("differences of its turns", key("2")),
        ("its tokens", key("4")),
        ("the next trajectory", key("j")),
        ("back to the list", key("Escape")),
    ),
    "grid": (
        ("grid of speedups", to("grid?metric=speedup")),
        ("timeline", to("timeline")),
        ("timeline of a step", to("timeline?step=100")),
    ),
    "metrics": (("scroll the metrics", scroll_page),),
    "overview": (("scroll the overview", scroll_page),),
}  # fmt: skip


if __name__ == "__main__":
    main()
