"""Whole benches on a small tree in KernelBench's layout: judged, stopped, taken up again, written down."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pyarrow.parquet as pq
import pytest

from warpsmith.evaluator import Client
from warpsmith.evaluator.bench import page
from warpsmith.evaluator.bench.bench import Plan, conduct
from warpsmith.evaluator.bench.command import parse_levels, server_deadline_s
from warpsmith.evaluator.bench.generations import read_run
from warpsmith.evaluator.bench.results import schema
from warpsmith.evaluator.bench.scoring import Answer, score
from warpsmith.evaluator.bench.settings import local_settings
from warpsmith.evaluator.bench.verdict_log import Outcome, Refusal, VerdictLog, VerdictLogError, ended_now
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.fingerprint import HEADER, name_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError

HOSTILE = """</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>"'><b>{{ 7*7 }}\u202e\x1b[31m\x00"""
SLEEPER = (
    "import time, torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x, y):\n        time.sleep(60)\n"
)
DEGENERATE = ("x + y", "x * 0")


@pytest.fixture
def tree(tmp_path, add_problem, add_candidate):
    """Level 1: two problems; level 2: one that accepts a constant. Two samples, one of them wrong, one missing."""
    run = tmp_path / "runs" / "mine"
    for name in ("level1/1_Add.py", "level1/2_Sum.py", "level2/1_Zero.py"):
        path = tmp_path / "KernelBench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            add_problem.source.replace(*DEGENERATE) if "Zero" in name else f"{add_problem.source}# {name}\n"
        )
    run.mkdir(parents=True)
    wrong = add_candidate.replace("mask=mask) + tl", "mask=mask) - tl")
    for name, source in {
        "level_1_problem_1_sample_0": add_candidate,
        "level_1_problem_1_sample_1": wrong,
        "level_1_problem_2_sample_0": add_candidate,
        "level_2_problem_1_sample_0": add_candidate,
        "level_1_problem_9_sample_0": add_candidate,
    }.items():
        (run / f"{name}_kernel.py").write_text(source)
    (run / "level_1_problem_one_sample_0_kernel.py").write_text("")
    (run / "level_1_problem_1_sample_0_prompt.txt").write_text("")
    return tmp_path


def plan_of(tree, config, **changes):
    run = tree / "runs" / "mine"
    given = {"dataset": tree, "generations": run, "out": run / "out", "levels": (), "at_once": 2, "trials": 2}
    asked = {"settings": local_settings(config), "operators": "none", "timeout_s": 20.0}
    return Plan(**{**given, **asked, **changes})


def nobody():
    raise AssertionError("nothing was left to be judged")


def lines(out):
    return (out / "verdicts.jsonl").read_text().splitlines()


def test_a_run_from_beginning_to_end_and_once_more(tree, config, evaluator, capsys):
    plan = plan_of(tree, config)
    found = conduct(plan, lambda: nullcontext(evaluator))
    one, two, every = found.scores
    assert [(answer.sample, answer.state, answer.correct) for answer in found.answers] == [
        *((0, "judged", True), (1, "judged", False), (0, "judged", True), (1, "missing", False)),
        (0, "refused", False),
    ]
    assert (one.counted, one.correct, one.compiled, one.pass_at) == (4, 2, 3, {1: 0.5, 2: 1.0})
    assert (two.counted, two.refused, every.counted, one.speed) == (0, 1, 4, None)
    assert found.complete
    assert found.report["missing"] == ["level 1 problem 2 (2_Sum) sample 1"]
    assert found.report["refused"] == ["level 2 problem 1 (1_Zero) sample 0"]
    ((refused, why),) = found.report["refusals"].items()
    assert refused == "level 2 problem 1 (1_Zero)"
    assert "(--allow-degenerate)" in why
    assert found.report["not_in_dataset"] == ["level_1_problem_9_sample_0_kernel.py"]
    assert found.report["unrecognized"] == ["level_1_problem_one_sample_0_kernel.py"]
    printed = capsys.readouterr().err
    assert "[4/4]" in printed
    assert "problem 1 sample 1: incorrect: " in printed
    assert "level 2 problem 1 sample 0: refused: Problem 1_Zero is degenerate" in printed
    assert "no problem 9 of level 1" in printed
    before = lines(plan.out)
    again = conduct(plan, nobody)
    assert lines(plan.out) == before
    assert [answer.verdict for answer in again.answers] == [answer.verdict for answer in found.answers]
    assert "4 verdicts are already recorded" in capsys.readouterr().err


def test_an_answer_in_another_language_fails_and_says_so(tree, config, evaluator, command):
    run = tree / "runs" / "mine"
    cuda = "from torch.utils.cpp_extension import load_inline\nclass ModelNew:\n    pass\n"
    (run / "level_1_problem_1_sample_1_kernel.py").write_text(cuda)
    plan = plan_of(tree, config, levels=(1,))
    found = conduct(plan, lambda: nullcontext(evaluator))
    named = "level 1 problem 1 (1_Add) sample 1: CUDA C++, language = 'cuda_cpp' (--backend cuda)"
    assert found.report["other_language"] == [named]
    (one,) = found.scores
    assert (one.counted, one.correct) == (4, 2)
    assert "--backend cuda" in (plan.out / "report.html").read_text()


def test_what_is_too_large_names_the_option_that_raises_the_limit(tree, command):
    path = tree / "KernelBench/level1/1_Add.py"
    path.write_text(f"{path.read_text()}\ndef get_inputs():\n    return [torch.zeros(1 << 15), torch.zeros(1 << 15)]\n")
    given = ("bench", "--dataset", tree, "--generations", tree / "runs" / "mine", "--levels", "1")
    code, out, err = command(*given, "--correctness-trials", "1", "--max-tensor-bytes", 1 << 16, "--slots", "1")
    assert code == 0
    assert "level 1 problem 1 sample 0: refused: " in err
    assert "level 1 problem 1 (1_Add): " in out
    assert "--max-tensor-bytes" in out


def test_what_is_written_holds_what_was_found(tree, config, evaluator):
    plan = plan_of(tree, config)
    found = conduct(plan, lambda: nullcontext(evaluator))
    table = pq.read_table(plan.out / "results.parquet")
    assert table.schema.equals(schema())
    assert table.schema.metadata == schema().metadata
    rows = table.to_pylist()
    assert [(row["level"], row["problem"], row["sample"], row["state"]) for row in rows] == [
        (answer.problem.level, answer.problem.number, answer.sample, answer.state) for answer in found.answers
    ]
    assert rows[0]["verdict"]["status"] == "correct"
    assert rows[0]["candidate"].startswith("import torch")
    assert "degenerate" in rows[4]["refusal"]
    level1 = json.loads((plan.out / "level_1" / "eval_results.json").read_text())
    assert {key: [entry["sample_id"] for entry in entries] for key, entries in level1.items()} == {
        "1": [0, 1],
        "2": [0],
    }
    entry = level1["1"][0]
    assert (entry["compiled"], entry["correctness"], entry["runtime"], entry["runtime_stats"]) == (True, True, -1.0, {})
    assert json.loads((plan.out / "level_2" / "eval_results.json").read_text()) == {}
    summary = json.loads((plan.out / "summary.json").read_text())
    assert summary["scores"][0]["pass_at"] == {"1": 0.5, "2": 1.0}
    assert summary["scores"][0]["speed"] is None
    assert "degenerate" in (plan.out / "report.html").read_text()


def test_a_changed_candidate_problem_or_setting_is_judged_anew(tree, config, evaluator, capsys):
    plan = plan_of(tree, config, levels=(1,))

    def judged_by(plan):
        conduct(plan, lambda: nullcontext(evaluator))
        return len(re.findall(r"^\[\d+/\d+\]", capsys.readouterr().err, flags=re.MULTILINE))

    assert judged_by(plan) == 3
    path = tree / "runs" / "mine" / "level_1_problem_2_sample_0_kernel.py"
    path.write_text(path.read_text() + "# changed\n")
    assert judged_by(plan) == 1
    path = tree / "KernelBench" / "level1" / "2_Sum.py"
    path.write_text(path.read_text() + "# changed\n")
    assert judged_by(plan) == 1
    assert judged_by(plan_of(tree, config.model_copy(update={"trials": 3}), levels=(1,), trials=3)) == 3
    assert judged_by(plan_of(tree, config.model_copy(update={"slots": 5, "gpu": 1}), levels=(1,), trials=3)) == 0


def test_one_answer_given_twice_is_judged_once(tree, config, evaluator, add_candidate):
    (tree / "runs" / "mine" / "level_1_problem_1_sample_1_kernel.py").write_text(add_candidate)
    found = conduct(plan_of(tree, config, levels=(1,)), lambda: nullcontext(evaluator))
    assert len(lines(tree / "runs" / "mine" / "out")) == 2
    assert (found.scores[0].correct, found.scores[0].counted) == (3, 4)


@contextmanager
def answering(verdict, health=None, headers=None):
    """A server that gives everybody the same verdict, and says `health` of itself."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(health or {})

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"verdict": verdict.to_record()})

        def answer(self, content):
            body = json.dumps(content).encode()
            self.send_response(200)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as peer:
        thread = threading.Thread(target=peer.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{peer.server_port}"
        peer.shutdown()
        thread.join()


def test_an_invalid_verdict_is_no_score_and_is_asked_for_again(tree, config, evaluator):
    plan = plan_of(tree, config, levels=(1,))
    with answering(invalid("the judge died")) as url:
        first = conduct(plan, lambda: Client([url], retries=0))
    assert not first.complete
    assert (first.scores[0].counted, first.scores[0].invalid, first.scores[0].correct_rate) == (1, 3, 0.0)
    assert first.answers[0].verdict.status == "invalid"
    assert json.loads((plan.out / "level_1" / "eval_results.json").read_text()) == {}
    second = conduct(plan, lambda: nullcontext(evaluator))
    assert second.complete
    assert (second.scores[0].counted, second.scores[0].invalid, second.scores[0].correct) == (4, 0, 2)


def test_a_time_of_another_device_and_a_stored_baseline(tree, config, capsys):
    baseline = tree / "baseline.json"
    baseline.write_text(json.dumps({"level1": {"1_Add.py": {"mean": 3.0}}}))
    fast = Verdict(
        *("correct", True, True),
        **{"speedup": 2.0, "runtime_ms": 1.0, "reference_ms": 2.0, "timing_tier": "two_clocks", "device": "GPU"},
    )
    plan = plan_of(tree, config, levels=(1,), baseline=baseline, missing_fail=False)
    with answering(fast) as url:
        found = conduct(plan, lambda: Client([url]))
    (level,) = found.scores
    assert level.speed.fast_p == {0.0: 1.0, 0.5: 1.0, 0.8: 1.0, 1.0: 1.0, 1.5: 1.0, 2.0: 0.0}
    assert (level.baseline_speed.n, level.baseline_speed.fast_p[2.0]) == (2, 1.0)
    assert found.report["not_in_baseline"] == ["2_Sum"]
    assert pq.read_table(plan.out / "results.parquet").column("baseline_speedup").to_pylist() == [3.0, 3.0, None, None]
    entry = json.loads((plan.out / "level_1" / "eval_results.json").read_text())["1"][0]
    assert (entry["runtime"], entry["ref_runtime"], entry["runtime_stats"]["mean"]) == (1.0, 2.0, 1.0)
    text = (plan.out / "report.html").read_text()
    assert "Speedup over the stored baseline, not measured here" in text
    assert "<svg" in text


def test_a_candidate_that_nobody_takes_fails_and_does_not_stop_the_run(tree, config, evaluator):
    path = tree / "runs" / "mine" / "level_1_problem_1_sample_1_kernel.py"
    path.write_text("#" * (1 << 19))
    (tree / "runs" / "mine" / "level_1_problem_2_sample_0_kernel.py").write_bytes(b"\xff\xfe class ModelNew")
    found = conduct(plan_of(tree, config, levels=(1,)), lambda: nullcontext(evaluator))
    statuses = [answer.verdict.status for answer in found.answers if answer.verdict]
    assert statuses == ["correct", "rejected", "compile_error"]
    assert "at most 262144" in found.answers[1].verdict.error_message


def test_a_run_and_a_dataset_that_do_not_belong_together(tree, config, tmp_path):
    for generations, says in [
        (tmp_path / "none", "no folder"),
        (tree / "KernelBench", "holds no generation; files named"),
    ]:
        with pytest.raises(UsageError, match=says):
            conduct(plan_of(tree, config, generations=generations), nobody)
    with pytest.raises(UsageError, match="no generation of the levels 3"):
        conduct(plan_of(tree, config, levels=(3,)), nobody)
    for path in (tree / "KernelBench" / "level1").iterdir():
        path.rename(path.with_name(f"5{path.name}"))
    with pytest.raises(UsageError, match="belongs to a problem in"):
        conduct(plan_of(tree, config, levels=(1,)), nobody)
    (tree / "runs" / "mine" / "level_1_problem_01_sample_0_kernel.py").write_text("")
    with pytest.raises(UsageError, match="name one sample"):
        read_run(tree / "runs" / "mine")


def test_numbers_that_no_table_holds_and_names_that_are_no_text_are_found_when_reading(tree):
    run = tree / "runs" / "mine"
    (run / "level_1_problem_2147483648_sample_0_kernel.py").write_text("")
    assert "level_1_problem_2147483648_sample_0_kernel.py" in read_run(run).unrecognized
    renamed = run.rename(run.with_name("caf\udce9"))
    with pytest.raises(UsageError, match="not valid Unicode"):
        read_run(renamed)


def test_a_level_that_the_dataset_lacks_is_named_and_not_judged(tree, config, evaluator):
    (tree / "runs" / "mine" / "level_3_problem_1_sample_0_kernel.py").write_text("")
    found = conduct(plan_of(tree, config), lambda: nullcontext(evaluator))
    assert "level_3_problem_1_sample_0_kernel.py" in found.report["not_in_dataset"]
    assert {answer.problem.level for answer in found.answers} == {1, 2}
    with pytest.raises(DatasetError, match="no problem of level 3"):
        conduct(plan_of(tree, config, levels=(1, 3)), nobody)


def test_the_deadline_of_a_verdict_grows_with_what_waits_before_it():
    assert server_deadline_s(16, 300.0) > 16 * 300
    assert server_deadline_s(1, 30.0) > 600


def test_levels_are_numbers_and_spans():
    assert parse_levels("") == ()
    assert parse_levels("2, 1,4-5") == (1, 2, 4, 5)
    for text in ("x", "1-", "-1", "1.5", "\u0661", "3-1", ",", " , "):
        with pytest.raises(UsageError, match="names no levels"):
            parse_levels(text)


RIGHT = Verdict("correct", True, True, flags=("tf32_dot",), error_message="caf\xe9 \u2028")


def test_the_log_gives_back_what_was_written_and_the_last_of_each_key(tmp_path):
    outcomes = [ended_now("a", verdict=invalid("x")), ended_now("b", refusal=Refusal("m", "r"))]
    with VerdictLog(tmp_path) as log:
        for outcome in [*outcomes, ended_now("a", verdict=RIGHT)]:
            log.append(outcome)
        written = dict(log.outcomes)
    with VerdictLog(tmp_path) as log:
        assert log.outcomes == written
        assert [log.outcomes[key].settled for key in ("a", "b")] == [True, True]
        assert not outcomes[0].settled


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_torn_line_is_cut_off_and_costs_no_other(tmp_path, cut):
    with VerdictLog(tmp_path) as log:
        log.append(ended_now("a", verdict=RIGHT))
        log.append(ended_now("b", verdict=RIGHT))
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    with VerdictLog(tmp_path) as log:
        assert list(log.outcomes) == ["a"]
        log.append(ended_now("c", verdict=RIGHT))
    with VerdictLog(tmp_path) as log:
        assert list(log.outcomes) == ["a", "c"]


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"format": 2}', '{"format": 1, "verdict": null, "refusal": null}'])
def test_a_damaged_line_is_named_and_left_alone(tmp_path, line):
    with VerdictLog(tmp_path) as log:
        log.append(ended_now("a", verdict=RIGHT))
    path = tmp_path / "verdicts.jsonl"
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(VerdictLogError, match="Line 2 ") as caught:
        VerdictLog(tmp_path)
    assert "judge its candidate again" in caught.value.remedy
    assert path.read_bytes() == before


def test_two_benches_do_not_write_one_log(tmp_path):
    with VerdictLog(tmp_path), pytest.raises(VerdictLogError, match="Another process"):
        VerdictLog(tmp_path)
    with VerdictLog(tmp_path) as log:
        assert log.outcomes == {}


class Page(HTMLParser):
    """What a browser would make of a page: its elements, what they may fetch, and the text of each `pre`."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.pres, self._in_pre = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]
        if tag == "pre":
            self._in_pre = True
            self.pres.append("")

    def handle_endtag(self, tag):
        self._in_pre = self._in_pre and tag != "pre"

    def handle_data(self, data):
        if self._in_pre:
            self.pres[-1] += data


def hostile_page(tmp_path):
    path = tmp_path / "level_1_problem_1_sample_0_kernel.py"
    path.write_text(HOSTILE)
    run = read_run(tmp_path)
    problem = Problem(HOSTILE, "class Model: pass\ndef get_inputs(): return []\n", 1, "", 1)
    verdict = Verdict(
        *("runtime_error", False, False),
        flags=(HOSTILE,),
        error_category=HOSTILE,
        error_message=HOSTILE,
        device=HOSTILE,
    )
    answers = [
        Answer(problem, 0, run.generations[0], Outcome("k", verdict=verdict)),
        Answer(problem, 1, None, Outcome("k", refusal=Refusal(HOSTILE, HOSTILE))),
    ]
    names = ("missing", "repaired", "invalid", "refused", "not_in_dataset", "unrecognized", "devices")
    names += ("not_in_baseline",)
    result = dict.fromkeys(("run", "dataset", "generations", "baseline"), HOSTILE) | {name: [HOSTILE] for name in names}
    result |= {
        "refusals": {HOSTILE: HOSTILE},
        "other_language": [HOSTILE],
        "format": "kernelbench",
        "missing_fail": True,
    }
    return page.render(result, answers, score(answers))


def test_foreign_text_is_only_ever_text(tmp_path):
    text = hostile_page(tmp_path)
    found = Page(text)
    assert found.tags.count("script") == 1
    assert not {"img", "b", "iframe", "link", "object", "base", "form"} & set(found.tags)
    assert not [one for one in found.attributes if one[1].startswith("on") or one[1] in {"src", "href", "style"}]
    assert found.pres[0] == page.shown(HOSTILE)
    assert "49" not in "".join(found.pres)
    for hidden in ("\u202e", "\x1b", "\x00"):
        assert hidden not in text


def test_the_policy_allows_our_script_and_style_and_nothing_else(tmp_path):
    import base64
    import hashlib

    text = hostile_page(tmp_path)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_the_histogram_counts_every_speedup_once():
    speedups = [1e-6, 0.5, 1.0, 1.0001, 2.0, 3.0, 16.0, 1e6]
    bars = page.histogram(speedups)
    assert sum(bar.count for bar in bars) == len(speedups)
    assert sum(bar.count for bar in bars if bar.faster) == 5
    assert all(bar.x >= 0 and bar.x + bar.width <= page.WIDTH and bar.y >= 0 for bar in bars)
    assert page.histogram([]) == []


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command in this process: its exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


def test_the_command_has_servers_judge(tree, server, command):
    given = ("bench", "--dataset", tree, "--generations", tree / "runs" / "mine", "--server", server.url)
    code, out, err = command(*given, "--levels", "1", "--correctness-trials", "2")
    assert code == 0, err
    assert "[3/3]" in err
    assert "pass@2" in out
    assert "absent, not zero" in out
    assert "level 1 problem 2 (2_Sum) sample 1" in out
    code, out, err = command(*given, "--levels", "1", "--correctness-trials", "2", "--json")
    assert (code, json.loads(out)["scores"][0]["correct"]) == (0, 2)
    assert "3 verdicts are already recorded" in err


def test_servers_that_judge_otherwise_are_distinguished(tree, server, command):
    given = ("bench", "--dataset", tree, "--generations", tree / "runs" / "mine", "--levels", "1", "--json")
    there = httpx.get(f"{server.url}/health").json()
    other = {**there, "conditions": {**there["conditions"], "hidden_shapes": False}}
    with answering(Verdict("correct", True, True), health=other) as url:
        code, _, err = command(*given, "--server", server.url, "--server", url)
        assert code == 2
        assert f"{url} judges under other conditions" in err
        assert "hidden_shapes is False instead of True" in err
        code, _, err = command(*given, "--server", url)
        assert code == 2
        assert f"{url} judges under other conditions" in err
        assert f"lack the header {HEADER}" in err
    code, _, err = command(*given, "--server", server.url)
    assert (code, "already recorded" in err) == (0, False)
    with answering(Verdict("correct", True, True), health=other, headers={HEADER: name_of(other["conditions"])}) as url:
        code, out, err = command(*given, "--server", url)
        assert (code, "already recorded" in err) == (0, False)
        assert json.loads(out)["scores"][0]["correct"] == 3
    with answering(Verdict("correct", True, True), health={"isolation": "none"}) as url:
        code, _, err = command(*given, "--server", url)
        assert (code, "does not name them" in err) == (2, True)


def test_the_command_says_what_is_wrong_with_its_arguments(tree, command, tmp_path):
    given = ("bench", "--dataset", tree, "--generations", tree / "runs" / "mine")
    closed = "http://127.0.0.1:9"
    for extra, says in [
        (("--levels", "x"), "names no levels"),
        (("--slots", "500"), "slots: Input should be less than or equal to 256"),
        (("--gpu", "64"), "Invalid value for '--gpu'"),
        (("--timed-trials", "20000"), "Invalid value for '--timed-trials'"),
        (("--server", "nonsense"), "not the address"),
        (("--server", closed), "cannot be reached"),
        (("--server", closed, "--device", "cuda", "--no-hidden-shapes"), "--device, --no-hidden-shapes cannot"),
        (("--server", closed, "--recording", "on_device"), "--recording cannot"),
        (("--server", closed, "--timeout", "3000"), "more than servers allow"),
        (("--server", closed, "--levels", "x"), "names no levels"),
        (("--stored-baseline", tree / "none.json"), "does not exist. Give a file like"),
        (("--output", tree / "runs" / "mine" / "level_1_problem_1_sample_0_kernel.py"), "is a file"),
        (("--dataset", tmp_path / "none"), "no dataset"),
    ]:
        code, out, err = command(*given, *extra)
        assert (code, out) == (2, ""), err
        assert says in " ".join(err.split()), err


@pytest.mark.slow
def test_a_bench_that_is_killed_goes_on_where_it_was(tree, add_candidate, server):
    run, out = tree / "runs" / "mine", tree / "out"
    command = [sys.executable, "-m", "warpsmith.evaluator", "bench", "--dataset", str(tree), "--generations", str(run)]
    command += ["--output", str(out), "--levels", "1", "--slots", "1", "--server", server.url, "--timeout", "10"]
    (run / "level_1_problem_2_sample_0_kernel.py").write_text(SLEEPER)
    log = out / "verdicts.jsonl"
    killed = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert any(line.startswith("[2/3]") for line in killed.stderr)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (out / "summary.json").exists()
    log.write_bytes(log.read_bytes() + b'{"format": 1, "key"')
    (run / "level_1_problem_2_sample_0_kernel.py").write_text(add_candidate)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2 verdicts are already recorded and not requested again; 1 remain." in done.stderr
    assert len(log.read_bytes().splitlines()) == 3
    assert json.loads((out / "summary.json").read_text())["scores"][0]["correct"] == 2


@pytest.mark.slow
def test_a_ctrl_c_stops_at_once_and_says_how_far_it_came(tree):
    """The whole foreground group gets the signal, as in a terminal."""
    run, out = tree / "runs" / "mine", tree / "out"
    command = [sys.executable, "-m", "warpsmith.evaluator", "bench", "--dataset", str(tree), "--generations", str(run)]
    command += ["--output", str(out), "--levels", "1", "--slots", "1"]
    (run / "level_1_problem_2_sample_0_kernel.py").write_text(SLEEPER)
    # What a shell starts in the background, these tests for example, ignores Ctrl-C and hands that on.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    assert any(line.startswith("[2/3]") for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    _, printed = process.communicate(timeout=120)
    assert (process.returncode, printed.count("\n")) == (130, 1), printed
    assert printed.startswith("stopped: 2 of 3 answers are judged, and recorded;")
    assert len((out / "verdicts.jsonl").read_text().splitlines()) == 2


def test_a_lock_left_by_a_kill_holds_nobody_up(tmp_path):
    with VerdictLog(tmp_path) as log:
        log.append(ended_now("a", verdict=RIGHT))
    fd = os.open(tmp_path / "verdicts.jsonl", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.close(fd)
    with VerdictLog(tmp_path) as log:
        assert list(log.outcomes) == ["a"]
