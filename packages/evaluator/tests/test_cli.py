import json
import subprocess
import sys
from dataclasses import replace

import pytest

from warpsmith.evaluator import Verdict
from warpsmith.evaluator.verdict_lines import operator_lines

REJECTED = Verdict("rejected", compiled=False, correct=False)
COMMAND = [sys.executable, "-m", "warpsmith.evaluator"]


def run(*arguments) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture
def files(tmp_path, add_problem, add_candidate):
    problem, candidate = tmp_path / "1_Add.py", tmp_path / "candidate.py"
    problem.write_text(add_problem.source)
    candidate.write_text(add_candidate)
    return problem, candidate


def test_json_is_one_object_and_nothing_else(files):
    done = run("check", *files, "--json", "--seed", 1, "--correctness-trials", 3)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["status"], record["trials"], record["compiled"]) == ("correct", 3, True)
    assert done.stderr == ""


def test_a_verdict_of_any_kind_is_exit_code_0_and_its_message_cannot_drive_the_terminal(files):
    """Without isolation, which is reported."""
    problem, candidate = files
    candidate.write_text('raise RuntimeError("\\ud800 \\x1b[31mred\\x07 caf\\xe9")\nclass ModelNew: pass\n')
    done = run("check", problem, candidate, "--isolation", "none")
    assert done.returncode == 0
    assert done.stdout.startswith("runtime_error ")
    assert "isolation=none  recording=on_device\n" in done.stdout
    assert "? \\x1b[31mred\\x07 café" in done.stdout
    assert "\x1b[31mred" not in done.stdout
    assert done.stderr.startswith("warning: --isolation none ")
    assert "your own rights" in done.stderr


@pytest.mark.parametrize(
    ("source", "says"),
    [("x = 1\n", "no Model"), ("class Model(:\n", "line 1")],
)
def test_a_bad_problem_is_one_paragraph_and_exit_code_2(files, source, says):
    problem, candidate = files
    problem.write_text(source)
    done = run("check", problem, candidate, "--json")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "\n\n" not in done.stderr.strip()
    assert done.stdout == ""


def test_a_missing_file_and_a_bad_option_are_exit_code_2(files, tmp_path):
    problem, candidate = files
    assert run("check", tmp_path / "none.py", candidate).returncode == 2
    assert run("check", problem, tmp_path / "none.py").returncode == 2
    assert run("check", problem, candidate, "--isolation", "hope").returncode == 2
    assert run("check", problem, candidate, "--correctness-trials", 0).returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        *(("check", "problem.py", "candidate.py", *bad) for bad in (("--gpu", 64), ("--timed-trials", 20_000))),
        *(("audit", "--dataset", "x", "--output", "y", *bad) for bad in (("--gpu", 64), ("--timed-trials", 20_000))),
        ("serve", "--device", "cuda", "--gpu", 64),
    ],
)
def test_a_number_that_the_evaluator_would_not_take_is_refused_with_its_bounds(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Invalid value for '--" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_without_isolation_an_honest_candidate_is_correct(files):
    done = run("check", *files, "--isolation", "none", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["status"], record["isolation_tier"], record["recording"]) == ("correct", "none", "detached")


def test_files_in_the_wrong_order_are_recognised(files):
    done = run("check", *reversed(files))
    assert done.returncode == 2
    assert "it is a candidate. Give the problem" in " ".join(done.stderr.split())


def test_a_library_operator_is_rejected_with_the_option_that_allows_it():
    def lines(used: str, policy: str = "none") -> list[str]:
        message = f"forward computes with torch instead of Triton: aten::{used} (line 3)."
        return list(operator_lines(replace(REJECTED, policy=policy, flags=("torch_fallback",), error_message=message)))

    (line,) = lines("convolution")
    assert line.startswith("--operators library allows convolutions, matrix products, ")
    assert lines("relu") == lines("convolution", "library") == []


def test_help_teaches_with_an_example_and_shows_names_and_choices_whole():
    shown = run("check", "--help").stdout
    assert "Example" in shown
    assert "…" not in shown
    for whole in ("--reference-timeout ", "/ --no-hidden-shapes", "compile_max_autotune"):
        assert whole in shown
    assert "besides its kernels" in " ".join(shown.split())
    commands = " ".join(run("--help").stdout.split())
    assert "check Judge CANDIDATE" in commands
    assert "..." not in commands.partition("Commands:")[2]
    assert "warpsmith-evaluator" in run("--version").stdout


def test_the_doctor_names_every_layer_and_the_tier():
    report = json.loads(run("doctor", "--json").stdout)
    assert report["tier"] in {"namespaces", "landlock", "none"}
    assert {"seccomp", "landlock", "pid namespace"} <= {layer["name"] for layer in report["layers"]}
    assert all(layer["available"] or layer["remedy"] for layer in report["layers"])
    assert report["tier"] in run("doctor").stdout


def test_the_doctor_names_the_gpus_or_what_keeps_candidates_from_one():
    report = json.loads(run("doctor", "--json").stdout)
    printed = " ".join(run("doctor").stdout.split())
    assert report["gpus"] or report["gpu_obstacle"]
    for gpu in report["gpus"]:
        assert f"--gpu {gpu['number']}: {gpu['name']}, {gpu['arch']}" in printed
    if report["gpu_obstacle"]:
        assert "cannot be judged on a GPU here" in printed
    else:
        assert "can be judged with --device cuda" in printed
