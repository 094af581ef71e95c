"""The report as a file: what it holds, how large it becomes, and what it refuses."""

import base64
import gzip
import json
import random
import re
import string
import struct
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_rows import credit_row, step_row, trajectory_rows, turn_row
from runs import ATTACK, write_evaluated_run, write_hostile_run

from warpsmith.records import RunReader, RunWriter, write_report
from warpsmith.records.follower import Follower
from warpsmith.records.report import ReportError, columns
from warpsmith.records.report.intervals import interval
from warpsmith.records.report.tokens import Vocabulary
from warpsmith.records.schema import credits_batch, steps_batch, turns_batch


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def page_of(run_dir: Path, **options: Any) -> str:
    out = run_dir / "report.html"
    write_report(RunReader(run_dir), out, **options)
    return out.read_text(encoding="utf-8")


def entry(page: str, name: str) -> bytes:
    found = re.search(rf'id="data-{name}">([^<]*)</script>', page)
    assert found is not None, name
    return gzip.decompress(base64.b64decode(found[1]))


def manifest(run_dir: Path, **options: Any) -> dict[str, Any]:
    return dict(json.loads(entry(page_of(run_dir, **options), "manifest")))


def overview(run_dir: Path) -> dict[str, Any]:
    return dict(manifest(run_dir)["overview"])


def test_the_result_is_a_sentence_with_the_interval_of_the_difference(tmp_path):
    about = overview(write_evaluated_run(tmp_path))
    said = about["headline"]
    numbers = re.fullmatch(
        r"Held-out problems solved: 25\.0% before training, 75\.0% after 2 steps: \+50\.0 points "
        r"\(95 % interval \+(\d+\.\d) to \+(\d+\.\d), 8 problems\)\.",
        said["text"],
    )
    assert numbers is not None, said
    assert 0 < float(numbers[1]) < 50 < float(numbers[2]) < 100
    assert said["tone"] == "up"


def test_a_difference_that_may_be_nothing_is_said_to_be(tmp_path):
    said = overview(write_evaluated_run(tmp_path, solved_after=3))["headline"]
    assert said["tone"] == "flat"
    assert said["text"].endswith("The interval includes no change.")


def test_the_first_screen_has_four_figures_and_says_what_more_turns_bring(tmp_path):
    about = overview(write_evaluated_run(tmp_path))
    assert [figure["value"] for figure in about["figures"]] == ["75.0%", "+75.0 points", "1.50x", "2"]
    assert [part["label"] for part in about["parts"]] == ["held_out before training", "held_out after 2 steps", "train"]
    assert about["parts"][1]["multi_turn"] == (
        "Turn 2 adds +75.0 points: solved within 1 to 2 turns 0.0%, 75.0%. That is 75.0% of what turn 1 does not solve."
    )


def test_parts_have_their_progress_and_can_be_split(tmp_path):
    run = write_evaluated_run(tmp_path)
    about = overview(run)
    assert about["by"] == "stage", "a run with several stages is split by them unasked"
    first, second = about["parts"][1]["progress"]
    assert (first["turn_number"], first["first_solved"], first["solved_by"]) == (1, 0.0, 0.0)
    assert (second["turn_number"], second["first_solved"], second["solved_by"]) == (2, 0.75, 0.75)
    # Six of eight go from 0.1 to 0.8, two to 0.
    assert first["improvement"] == {"trajectories": 8, "mean": pytest.approx((6 * 0.7 - 2 * 0.1) / 8)}
    assert first["improvement_solved"] == {"trajectories": 0, "mean": None}
    split = manifest(run, by="level")["overview"]
    assert split["by"] == "level"
    labels = [part["label"] for part in split["parts_by"]]
    assert labels[-2:] == ["train, level 1", "train, level 2"]
    assert [part["solved"] for part in split["parts_by"]][-2:] == [0.0, 1.0]


def test_turns_that_solve_nothing_more_are_said_to(tmp_path):
    with RunWriter(tmp_path) as writer:
        for name, statuses in {"a": ["correct", "incorrect"], "b": ["incorrect", "incorrect"]}.items():
            writer.append("turns", turns_batch(trajectory_rows(name, statuses)))
    (part,) = overview(tmp_path)["parts"]
    assert part["multi_turn"] == "Turn 2 solves nothing more: 50.0% with one turn and with all."
    assert part["solved_by_turn"] == [0.5, 0.5]


def test_curves_show_evaluations_with_intervals_and_training_by_turn(tmp_path):
    trends = {trend["title"]: trend["curves"] for trend in overview(write_evaluated_run(tmp_path))["trends"]}
    (solved,) = trends["held_out: solved, with 95 % interval"]
    assert (solved["x"], solved["y"]) == ([0, 2], [0.25, 0.75])
    assert solved["low"][0] < 0.25 < solved["high"][0]
    first, second = trends["training: correct by turn"]
    assert (first["name"], first["x"], first["y"], second["y"]) == ("turn 1", [1, 2], [0.0, 0.0], [1.0, 1.0])
    assert [curve["name"] for curve in trends["seconds of a step by phase"]] == ["collect", "train", "sync"]


def test_curves_show_what_was_in_use(tmp_path):
    about = overview(write_evaluated_run(tmp_path))
    (trend,) = [trend for trend in about["trends"] if trend["title"].startswith("in use")]
    assert [(curve["name"], curve["x"]) for curve in trend["curves"]] == [("evaluator busy", [1, 2]), ("gpu 0", [1, 2])]
    assert trend["curves"][1]["y"] == pytest.approx([0.6, 0.7])


def test_the_spread_of_advantages_is_that_of_each_step_in_whatever_order(tmp_path):
    order, values = [3, 1, 2, 1, 3, 1], [0.5, -1.0, 0.25, 3.0, 0.75, 1.0]
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch(trajectory_rows("t", ["correct"] * 6)))
        rows = [credit_row("t", n, step, advantage=values[n]) for n, step in enumerate(order)]
        writer.append("credits", credits_batch(rows))
    (trend,) = [trend for trend in overview(tmp_path)["trends"] if trend["title"] == "advantages: spread"]
    found = {curve["name"]: dict(zip(curve["x"], curve["y"], strict=True)) for curve in trend["curves"]}
    assert found["median"] == {1: 1.0, 2: 0.25, 3: 0.625}
    assert (found["largest"][1], found["smallest"][1], found["largest"][3]) == (3.0, -1.0, 0.75)


def test_trajectories_to_read_are_of_different_problems(tmp_path):
    with RunWriter(tmp_path) as writer:
        for number in range(9):
            best = trajectory_rows(f"t{number}", ["correct"], problem=f"p{number // 3}", speedup=9.0 - number)
            writer.append("turns", turns_batch(best))
    first = manifest(tmp_path, trajectories=4)["overview"]["readings"][0]
    assert (first["heading"], first["keys"]) == ("highest return", ["t0", "t3", "t6", "t1"])


def test_curves_show_each_agent_and_the_speedup_over_its_start(tmp_path):
    with RunWriter(tmp_path) as writer:
        for step in (1, 2):
            rows = trajectory_rows(f"step-{step}/0", ["incorrect", "correct"], rollout_step=step, after_step=step - 1)
            rows[0]["agent"] = "generator"
            rows[1] |= {"agent": "optimizer", "speedup_over_start": 1.0 + step}
            writer.append("turns", turns_batch(rows))
    trends = {trend["title"]: trend["curves"] for trend in overview(tmp_path)["trends"]}
    found = {curve["name"]: curve["y"] for curve in trends["training: correct by agent"]}
    assert found == {"generator": [0.0, 0.0], "optimizer": [1.0, 1.0]}
    (over,) = trends["training: mean speedup over the start by agent"]
    assert (over["name"], over["x"], over["y"]) == ("optimizer", [1, 2], [2.0, 3.0])


def test_facts_come_from_the_configuration_and_are_said_to_be_missing(run_dir):
    assert ["Command", "not recorded"] in overview(run_dir)["facts"]
    (run_dir / "config.json").write_text('{"policy": {"path": "a/model"}, "algorithm": {"type": "grpo"}}')
    (run_dir / "start.json").write_text('{"command": ["train", "x.toml"], "versions": {"torch": "2.11"}}')
    about = overview(run_dir)
    for fact in (["Model", "a/model"], ["Algorithm", "grpo"], ["Command", "train x.toml"], ["Versions", "torch 2.11"]):
        assert fact in about["facts"]
    assert ["algorithm.type", "grpo"] in about["config"]


def test_the_page_needs_nothing_from_elsewhere(run_dir):
    page = page_of(run_dir)
    tags = Elements(page).found
    assert not {"link", "iframe", "object", "img"} & {tag for tag, _ in tags}
    assert not [attributes for _, attributes in tags if "src" in attributes or "href" in attributes]
    (policy,) = [a["content"] for tag, a in tags if tag == "meta" and "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy and "unsafe-eval" not in policy


def test_hostile_text_is_nowhere_in_the_markup(tmp_path):
    page = page_of(write_hostile_run(tmp_path))
    assert ATTACK not in page
    assert "window.owned" not in page
    assert page.count("<script>") == 1
    texts = json.loads(entry(page, "block-0"))["texts"]
    assert ATTACK in texts


def test_all_texts_are_in_the_file_while_there_is_room(tmp_path):
    run = write_evaluated_run(tmp_path)
    found = manifest(run)
    assert found["overview"]["texts"] == len(found["index"]) == 20
    assert manifest(run, trajectories=0)["index"] == {}


def test_a_run_that_does_not_fit_is_sampled_and_the_chosen_come_first(tmp_path):
    letters = random.Random(0)
    with RunWriter(tmp_path) as writer:
        for number in range(200):
            text = "".join(letters.choices(string.ascii_letters, k=20_000))
            rows = trajectory_rows(f"t{number}", ["correct"], speedup=1 + number / 200, completion=text)
            writer.append("turns", turns_batch(rows))
    most = 3_000_000
    found = manifest(tmp_path, trajectories=2, most_bytes=most)
    assert (tmp_path / "report.html").stat().st_size <= most
    assert 4 < len(found["index"]) < 200
    assert {"t199", "t198"} <= found["index"].keys()
    assert found["overview"]["trajectories"] == 200
    with pytest.raises(ReportError, match="figures of this run alone"):
        page_of(tmp_path, most_bytes=100_000)


def test_the_same_run_gives_the_same_sample(tmp_path):
    run = write_evaluated_run(tmp_path)
    assert manifest(run)["overview"]["readings"] == manifest(run)["overview"]["readings"]
    headings = [(reading["part"], reading["heading"]) for reading in manifest(run)["overview"]["readings"]]
    assert headings[0] == ("held_out before training", "highest return")
    keys = [key for reading in manifest(run)["overview"]["readings"] for key in reading["keys"]]
    assert len(keys) == len(set(keys))


def test_held_out_figures_are_compared(run_dir):
    held_out = {
        "before": {"correct": 0.25, "checkpoint": "a"},
        "after": {"correct": 0.5, "checkpoint": "b"},
        "interval": {"correct": [0.1, 0.4]},
    }
    (run_dir / "summary.json").write_text(json.dumps({"held_out": held_out}))
    (figure,) = overview(run_dir)["held_out"]
    expected = {"metric": "correct", "before": 0.25, "after": 0.5, "difference": 0.25, "interval": [0.1, 0.4]}
    assert figure == expected


def test_a_run_that_was_evaluated_before_training_alone_shows_that(run_dir):
    (run_dir / "summary.json").write_text('{"held_out": {"before": {"correct": 0.25}}}')
    (figure,) = overview(run_dir)["held_out"]
    assert (figure["before"], figure["after"], figure["difference"]) == (0.25, None, None)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("summary.json", "{"),
        ("summary.json", '{"held_out": 3}'),
        ("summary.json", '{"held_out": {"before": 1}}'),
        ("summary.json", '{"held_out": {"before": {"x": 1}, "interval": {"x": [1]}}}'),
        ("config.json", "[]"),
        ("problems.jsonl", '{"a": "b"}\n'),
    ],
)
def test_a_broken_file_beside_the_records_is_a_typed_error(run_dir, file, text):
    (run_dir / file).write_text(text)
    with pytest.raises(ReportError, match=file.replace(".", r"\.")):
        page_of(run_dir)


def test_known_solutions_stand_beside_the_turns(tmp_path):
    run = write_evaluated_run(tmp_path)
    (run / "problems.jsonl").write_text(
        '{"problem": "held_0", "source": "class Model", "solution": "class ModelNew"}\n'
    )
    block = json.loads(entry(page_of(run), "block-0"))
    found = {entry["problem"]: entry["solution"] for entry in block["trajectories"]}
    assert (found["held_0"], found["held_1"]) == ("class ModelNew", None)


def test_torn_ends_are_reported_on_the_page(run_dir):
    (stream,) = (run_dir / "records" / "turns").glob("*.arrows")
    with stream.open("ab") as file:
        file.write(b"unfinished")
    assert "10 bytes after the last recorded batch" in overview(run_dir)["torn"][0]


def test_a_run_with_steps_alone_and_one_with_turns_alone_have_pages(tmp_path):
    with RunWriter(tmp_path / "steps") as writer:
        writer.append("steps", steps_batch([step_row(step) for step in range(40)]))
    with RunWriter(tmp_path / "turns") as writer:
        writer.append("turns", turns_batch(trajectory_rows("a", ["incorrect"])))
    assert overview(tmp_path / "steps")["parts"] == []
    assert overview(tmp_path / "turns")["turns"] == 1


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [("report", "plotly", "analysis"), ("serve", "uvicorn", "serve"), ("serve", "starlette", "serve")],
)
def test_without_an_extra_the_error_says_what_to_install(run_dir, command, module, extra):
    code = f"""
import sys
sys.modules[{module!r}] = None
sys.argv = ["warpsmith-records", {command!r}, {str(run_dir)!r}]
from warpsmith.records.cli import main
main()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert f"pip install './packages/records[{extra}]'" in " ".join(found.stderr.split())


def test_columns_keep_values_and_nulls():
    table = columns.flat_steps(steps_table([step_row(1, kl=None, metrics={"a": 1.5}), step_row(2, kl=0.5, metrics={})]))
    data = columns.encode(table)
    (length,) = struct.unpack("<I", data[:4])
    assert (4 + length) % 8 == 0
    heads = {head["name"]: head for head in json.loads(data[4 : 4 + length])["columns"]}

    def doubles(name: str) -> tuple[float, ...]:
        return struct.unpack_from("<2d", data, 4 + length + heads[name]["at"])

    assert doubles("kl")[1] == 0.5 and doubles("kl")[0] != doubles("kl")[0]
    assert doubles("a")[0] == 1.5 and doubles("a")[1] != doubles("a")[1]
    assert struct.unpack_from("<2i", data, 4 + length + heads["step"]["at"]) == (1, 2)
    assert heads["run"]["values"] == ["demo"]


def steps_table(rows):
    import pyarrow as pa

    return pa.Table.from_batches([steps_batch(rows)])


def test_tokens_are_placed_in_the_text_by_the_vocabulary():
    words = {1: "\u0120de", 2: "f", 3: "\u00c3", 4: "\u00a9", 5: "<|end|>", 6: "\u00f0\u0141\u013a\u0122"}
    vocabulary = Vocabulary(words, frozenset({5}))
    assert vocabulary.ends([1, 2, 5], " def") == [3, 4, 4]
    assert vocabulary.ends([1, 3, 4], " de\u00e9") == [3, 3, 4]
    assert vocabulary.ends([6, 2], "\U0001f600f") == [2, 3]
    assert vocabulary.ends([1, 2], "other") is None
    assert vocabulary.ends([9], "x") is None


def test_the_interval_of_equal_values_has_no_width_and_one_value_has_none():
    assert (interval([0.5] * 9).low, interval([0.5] * 9).high) == (0.5, 0.5)
    assert interval([0.5]).low is None


def test_a_follower_reads_only_what_is_new_and_finds_every_text(tmp_path, monkeypatch):
    with RunWriter(tmp_path) as writer:
        writer.append("turns", turns_batch([turn_row("a"), turn_row("b")]))
        reader = RunReader(tmp_path)
        follower = Follower(reader)
        assert not follower.refresh()
        writer.append("turns", turns_batch([turn_row("c", completion="third")]))
        with RunWriter(tmp_path) as second:
            second.append("turns", turns_batch([turn_row("a", completion="again")]))
            second.append("steps", steps_batch([step_row(1)]))
        read = []
        since = reader.recorded_since
        monkeypatch.setattr(reader, "recorded_since", lambda *a: [read.append(a[0]) or found for found in since(*a)])
        assert follower.refresh()
    assert sorted(read) == ["steps", "turns", "turns"]
    assert follower.turns.column("key").to_pylist() == ["b", "c", "a"]
    texts = {key: rows[0]["completion"] for key, rows in follower.trajectories(["a", "c", "none"]).items()}
    assert texts == {"a": "again", "c": "third"}
