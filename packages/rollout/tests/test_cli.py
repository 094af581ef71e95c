"""The console command: what it writes, what it refuses, and what it does not import."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.folders import OutputError
from warpsmith.rollout import cli
from warpsmith.rollout.cli import app
from warpsmith.rollout.datasets import read_problems

RUNNER = CliRunner()


def invoke(*arguments):
    return RUNNER.invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_problems_are_written(tmp_path):
    assert invoke("problems", "--count", 4, "--split", "held_out", "--levels", "1", "--output", tmp_path).exit_code == 0
    assert len(read_problems(tmp_path)) == 4


def test_naive_solutions_of_large_problems_are_written(tmp_path):
    options = ("problems", "--count", 4, "--size", "gpu")
    for grade in ("good", "naive"):
        assert invoke(*options, "--solutions", grade, "--output", tmp_path / grade).exit_code == 0
    good, naive = (read_problems(tmp_path / grade) for grade in ("good", "naive"))
    assert [row.text for row in good] == [row.text for row in naive]
    assert all(one.solution != other.solution for one, other in zip(good, naive, strict=True))


def test_the_schema_lists_every_setting_and_the_help_names_it():
    shown = invoke("schema").stdout
    assert '[environment]  # type = "kernelbench"\n' in shown
    assert '"namespaces" | "landlock" | "none". Weakest accepted containment' in shown
    assert json.loads(invoke("schema", "--json").stdout)["properties"]["concurrency"]["default"] == 64
    printed = " ".join(invoke("evaluate", "--help").stdout.split())
    assert "or remove it with `unset`; repeatable." in printed


def test_environments_are_listed():
    assert "kernelbench_multiturn  " in invoke("environments").stdout


def test_results_are_compared(tmp_path):
    for name, solved in (("a", 1), ("b", 3)):
        problems = [{"problem": f"p{i}", "level": 1, "trajectories": 4, "solved": solved} for i in range(9)]
        (tmp_path / name).write_text(json.dumps({"problems": problems}))
    found = json.loads(invoke("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert (found["first"], found["second"], found["probability"]) == (0.25, 0.75, 1.0)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["problems", "--split", "test", "--output", "x"], "held_out"),
        (["problems", "--levels", "one", "--output", "x"], "1,2 or 1-3"),
        (["problems", "--size", "huge", "--output", "x"], "cpu, gpu"),
        (["problems", "--solutions", "best", "--output", "x"], "naive, good"),
        (["problems", "--solutions", "naive", "--output", "x"], "has no naive solution"),
        (["problems", "--language", "cuda", "--output", "x"], "triton, cuda_cpp"),
        (["evaluate", "x", "--size", "gpu"], "too large for the interpreter"),
        (["generate", "x", "y", "--size", "gpu"], "too large for the interpreter"),
        (["compare", "missing", "missing"], "evaluate --output"),
        (["evaluate", "x", "--environment", "kernelbensh"], "Did you mean `kernelbench`"),
        (["evaluate", "x", "--prompt-style", "short"], "'full' or 'compact'"),
        (["evaluate", "x", "--set", "reward.bonus=1"], "unknown key `bonus` in .reward."),
        (["evaluate", "x", "--set", "max_turn=1"], "did you mean `environment.max_turns`"),
        (["evaluate", "x", "--set", "trials=1"], "did you mean `evaluator.trials`"),
        (["evaluate", "x", "--set", "gamma='0.5'"], "write 0.5, without quotes"),
        (["evaluate", "x", "--set", "gama=unset"], "there is no key or table `gama`"),
        (
            ["evaluate", "x", "--max-turns", "2", "--environment", "kernelbench"],
            "key of type = .kernelbench_multi",
        ),
        (["evaluate", "x", "--set", "gamma"], "form table.key=value"),
        (["evaluate", "x", "--dtype", "int8"], "sampler.dtype"),
        (["evaluate", "x", "--max-tokens", "9000"], "do not fit"),
        (["evaluate", "x", "--isolation", "prayer"], "minimum_isolation"),
        (["evaluate", "x", "--problems", "nowhere", "--split", "train"], "--split train is for generated problems"),
        (["evaluate", "x", "--problems", "{rows}", "--count", "4"], "--count 4 asks for more problems than the 3"),
        (["evaluate", "x", "--problems", "{rows}", "--levels", "3-5"], "None of the 3 problems"),
        (["evaluate", "x", "--output", "/proc"], "/proc is a directory; a file was expected"),
        (["evaluate", "x", "--output", "/proc/x/y.json"], "Nothing can be written under /proc/x"),
        (["generate", "x", "/proc/x"], "Nothing can be written under /proc/x"),
    ],
)
def test_bad_input_is_a_typed_error_before_anything_starts(arguments, part, tmp_path):
    invoke("problems", "--count", 3, "--levels", "1", "--output", tmp_path / "rows")
    with pytest.raises(WarpsmithError, match=part) as caught:
        invoke(*(argument.format(rows=tmp_path / "rows") for argument in arguments))
    assert caught.value.exit_code == 2


@pytest.fixture
def sampled(monkeypatch):
    verdict = {"correct": True, "compiled": True, "speedup": None}
    row = {"problem": "p", "level": 1, "trajectory": "t", "turn": 0, "valid": True, "verdict": verdict}
    monkeypatch.setattr(cli, "sampled_turns", lambda *_, **__: [row])


@pytest.mark.usefixtures("sampled")
def test_a_result_is_written_into_a_folder_that_was_not_there(tmp_path):
    out = tmp_path / "new" / "before.json"
    assert "pass@k" in invoke("evaluate", "x", "--count", 1, "--output", out).stdout
    assert json.loads(out.read_text())["problems"][0]["solved"] == 1


@pytest.mark.usefixtures("sampled")
def test_a_result_that_cannot_be_written_is_printed_all_the_same(tmp_path, monkeypatch, capsys):
    out = tmp_path / "before.json"
    real = cli.sampled_turns
    monkeypatch.setattr(cli, "sampled_turns", lambda *a, **k: (out.mkdir(), real(*a, **k))[1])
    with pytest.raises(OutputError, match=r"Could not write .*before\.json"):
        app(["evaluate", "x", "--count", "1", "--output", str(out)], standalone_mode=False)
    assert "pass@k" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [[], ["evaluate"], ["generate"], ["problems"], ["compare"], ["environments"], ["schema"]]
)
def test_help_has_an_example(command):
    assert "warpsmith-rollout" in invoke(*command, "--help").stdout


@pytest.mark.parametrize("command", [["evaluate", "nowhere"], ["generate", "nowhere", "run"]])
def test_bad_input_is_one_paragraph_on_stderr_and_leaves_nothing(tmp_path, command):
    command = [sys.executable, "-m", "warpsmith.rollout", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: nowhere does not exist")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_turns_are_not_added_to_a_run_that_is_there(tmp_path):
    (tmp_path / "records").mkdir()
    with pytest.raises(WarpsmithError, match="already holds a run"):
        invoke("generate", "x", tmp_path)


def test_nothing_heavy_is_imported_for_help_config_or_problems():
    modules = "cli config generator datasets settings problem_choice prompts episodes collector "
    modules += "samplers samplers.pool samplers.registry samplers.vllm samplers.vllm.in_process"
    program = "import sys\n" + "".join(f"import warpsmith.rollout.{m}\n" for m in modules.split())
    program += "print([m for m in ('torch', 'vllm', 'ray', 'transformers', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
