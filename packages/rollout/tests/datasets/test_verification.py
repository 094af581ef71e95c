"""`warpsmith-rollout verify`: real verdicts, killed, stopped, taken up again."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from warpsmith.evaluator.errors import BadProblemError, JudgeUnavailableError
from warpsmith.evaluator.languages.cuda_cpp import toolkit
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.reader import RunReader
from warpsmith.rollout.cli import main
from warpsmith.rollout.datasets import generated, verification
from warpsmith.rollout.datasets.output_folder import output_folder
from warpsmith.rollout.datasets.verification import outcomes_in

ROWS = generated(seed=0, count=3, levels=(1,))
BROKEN = "class ModelNew(:"


def row(problem, kernel, *, correct=True, speedup=None):
    return {"problem": problem.text, "kernel": kernel, "name": problem.name, "level": 1} | {
        "correct": correct,
        "speedup": speedup,
    }


def wrong(problem):
    """Return a solution that stores something else."""
    return problem.solution.replace("tl.store(out_ptr + i, x", "tl.store(out_ptr + i, x + 1.0")


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [row(ROWS[0], ROWS[0].solution, speedup=2.0), row(ROWS[0], wrong(ROWS[0])), row(ROWS[1], ROWS[1].solution)]
    rows += [row(ROWS[1], BROKEN, correct=False), row(ROWS[0], ROWS[0].solution), row(ROWS[2], ROWS[2].solution)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n{\n")
    return path


def command(dataset, output, *options):
    return ["warpsmith-rollout", "verify", str(dataset), "--output", str(output), "--workers", "1", *options]


def run(monkeypatch, *arguments):
    """Run the command in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", command(*arguments))
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return 0


@contextmanager
def interruptible():
    """What a shell starts in the background, these tests for example, ignores Ctrl-C and hands that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def started(dataset, output):
    with interruptible():
        arguments = [sys.executable, "-m", "warpsmith.rollout", *command(dataset, output)[1:]]
        return subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_verification_is_killed_and_stopped_and_judges_each_kernel_once(dataset, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out"
    killed = started(dataset, output)
    assert any(line.startswith("[1/5]") for line in killed.stderr)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (output / "summary.json").exists()
    before = len(outcomes_in(output))
    assert 1 <= before < 5
    stopped = started(dataset, output)
    assert any(line.startswith("[1/") for line in stopped.stderr)
    stopped.send_signal(signal.SIGINT)
    printed = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130, printed
    assert "the same command continues from here" in printed
    summary = json.loads((output / "summary.json").read_text())
    assert before < len(outcomes_in(output)) <= 5
    assert summary["waiting"] == sum(one["by_status"].get("waiting", 0) for one in summary["claims"].values())
    assert run(monkeypatch, dataset, output) == 0
    turns = RunReader(output).table("turns")
    assert Counter(turns.column("trajectory").to_pylist()).most_common(1)[0][1] == 1
    assert len(turns) == 5
    summary = json.loads((output / "summary.json").read_text())
    claims = summary["claims"]
    assert (summary["rows"], summary["kernels"], summary["unusable"], summary["waiting"]) == (6, 5, 1, 0)
    assert claims["correct"]["by_status"] == {"correct": 4, "incorrect": 1}
    assert claims["correct"]["share_correct"] == 0.8
    assert claims["wrong"]["by_status"] == {"compile_error": 1}
    assert "claimed correct: 5; 4 of 5 decided are correct (80.0%)" in capsys.readouterr().out
    rows = pq.read_table(output / "rows.parquet").to_pylist()
    assert [one["status"] for one in rows] == [
        "correct", "incorrect", "correct", "compile_error", "correct", "correct",
    ]  # fmt: skip
    assert (rows[0]["claimed_speedup"], rows[0]["place"]) == (2.0, f"line 1 of {dataset}")


class Judge:
    """Answers by a function of the candidate."""

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    async def evaluate_async(self, problem, candidate, *, on_running=None, **options):
        self.asked.append(candidate)
        answer = self.rule(candidate)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def judged_by(monkeypatch):
    """Return a function that puts a judge in the place of the evaluator."""

    def put(rule):
        judge = Judge(rule)

        @contextmanager
        def opened(config, evaluator, **options):
            yield judge

        monkeypatch.setattr(verification, "open_evaluator", opened)
        return judge

    return put


CORRECT = Verdict("correct", True, True, speedup=1.5)


def test_what_the_evaluator_failed_on_is_judged_again_and_is_never_wrong(dataset, tmp_path, monkeypatch, judged_by):
    output = tmp_path / "out"
    judge = judged_by(lambda kernel: invalid("lost") if kernel == ROWS[1].solution else CORRECT)
    assert run(monkeypatch, dataset, output) == 3
    summary = json.loads((output / "summary.json").read_text())
    assert summary["claims"]["correct"] == {
        "rows": 5, "correct": 4, "wrong": 0, "share_correct": 1.0, "by_status": {"correct": 4, "invalid": 1},
    }  # fmt: skip
    assert summary["waiting"] == 1
    assert summary["speedups"] == {"rows": 1, "claimed": 2.0, "measured": 1.5}
    assert len(judge.asked) == 6, "an invalid verdict is tried once more at once"
    judge = judged_by(lambda kernel: CORRECT)
    assert run(monkeypatch, dataset, output) == 0
    assert judge.asked == [ROWS[1].solution]
    assert json.loads((output / "summary.json").read_text())["claims"]["correct"]["correct"] == 5


def test_a_refused_problem_is_asked_once_and_says_nothing_of_its_kernels(dataset, tmp_path, monkeypatch, judged_by):
    output = tmp_path / "out"
    kernels = (ROWS[0].solution, wrong(ROWS[0]))
    judge = judged_by(lambda kernel: BadProblemError("It is degenerate.", "Fix it.") if kernel in kernels else CORRECT)
    assert run(monkeypatch, dataset, output, "--set", "retries=0") == 0
    assert len(judge.asked) == 4
    summary = json.loads((output / "summary.json").read_text())
    assert summary["claims"]["correct"]["by_status"] == {"correct": 2, "refused": 3}
    assert summary["claims"]["correct"]["wrong"] == 0
    details = {
        one["detail"] for one in pq.read_table(output / "rows.parquet").to_pylist() if one["status"] == "refused"
    }
    assert details == {"It is degenerate. Fix it."}


def test_verdicts_under_other_settings_are_not_mixed(dataset, tmp_path, monkeypatch, judged_by, capsys):
    output = tmp_path / "out"
    judged_by(lambda kernel: CORRECT)
    assert run(monkeypatch, dataset, output, "--limit", "2") == 0
    assert run(monkeypatch, dataset, output, "--set", "evaluator.trials=2") == 2
    assert "under other settings: trials changed" in capsys.readouterr().err.replace("\n", " ")
    judge = judged_by(lambda kernel: CORRECT)
    assert run(monkeypatch, dataset, output) == 0
    assert len(judge.asked) == 3, "a larger limit continues"


def test_without_an_evaluator_nothing_is_left(dataset, tmp_path, monkeypatch, judged_by, capsys):
    judged_by(lambda kernel: JudgeUnavailableError("No judge.", "Start one."))
    assert run(monkeypatch, dataset, tmp_path / "out") != 0
    assert "No judge." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_one_process_at_a_time(dataset, tmp_path, monkeypatch, judged_by, capsys):
    judge = judged_by(lambda kernel: CORRECT)
    with output_folder(tmp_path / "out"):
        assert run(monkeypatch, dataset, tmp_path / "out") == 2
    assert "Another process writes" in capsys.readouterr().err
    assert not judge.asked
    assert not os.path.exists(tmp_path / "out")


def test_problems_without_kernels_are_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"code": ROWS[0].text, "ops": "[]"}) + "\n")
    assert run(monkeypatch, path, tmp_path / "out") == 2
    assert "nothing to verify" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_turns_hold_prompt_and_answer(dataset, tmp_path, monkeypatch, judged_by):
    judged_by(lambda kernel: CORRECT)
    assert run(monkeypatch, dataset, tmp_path / "out") == 0
    turn = RunReader(tmp_path / "out").table("turns").to_pylist()[0]
    assert ROWS[0].text.strip() in turn["messages"][-1]["content"]
    assert turn["completion"] == f"```python\n{ROWS[0].solution.strip()}\n```"
    assert (turn["role"], turn["source"], turn["valid"], turn["reward"]) == ("dataset", "dataset/pairs", True, 0.8)


CUDA = """\
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r\"\"\"
__global__ void kernel(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i];
}
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
\"\"\"
module = load_inline("copied", "torch::Tensor run(torch::Tensor x);", SOURCE, functions=["run"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.run(x)
"""


@pytest.fixture
def in_both(tmp_path):
    """A data set whose first two kernels are in CUDA C++, by their text alone, and whose last one is in Triton."""
    path = tmp_path / "both.jsonl"
    rows = [row(ROWS[0], CUDA), row(ROWS[0], CUDA.replace("if (i < n)", "if (i < m)")), row(ROWS[1], ROWS[1].solution)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


@pytest.mark.long  # as above with builds; test_instructions.py of the evaluator has both verdicts on one
@pytest.mark.slow
def test_kernels_in_cuda_are_compiled_and_undecided_without_a_gpu_and_never_count_as_correct(
    in_both, tmp_path, monkeypatch, capsys
):
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    output = tmp_path / "out"
    assert run(monkeypatch, in_both, output, "--backend", "cuda", "--set", "evaluator.compile_timeout_s=120") == 0
    turns = RunReader(output).table("turns").to_pylist()
    assert [(one["verdict"]["status"], one["verdict"]["compiled"]) for one in turns] == [
        ("undecided", True),
        ("compile_error", False),
    ]
    assert all("load_inline" in one["messages"][-1]["content"] for one in turns), "the prompt asks for CUDA C++"
    counts = json.loads((output / "summary.json").read_text())["claims"]["correct"]
    assert (counts["rows"], counts["correct"], counts["wrong"]) == (2, 0, 1)
    assert counts["by_status"] == {"compile_error": 1, "undecided": 1}
    assert "a GPU can decide" in capsys.readouterr().out
    languages = pq.read_table(output / "rows.parquet").column("language").to_pylist()
    assert languages == ["cuda_cpp", "cuda_cpp"]


def test_servers_are_asked_for_the_language_of_the_kernels(in_both, tmp_path, monkeypatch, capsys):
    asked = []

    @contextmanager
    def opened(config, evaluator, **options):
        asked.append(evaluator.language)
        yield Judge(lambda kernel: CORRECT)

    monkeypatch.setattr(verification, "open_evaluator", opened)
    servers = ("--set", "evaluation.type=server", "--set", "evaluation.servers=http://127.0.0.1:1")
    assert run(monkeypatch, in_both, tmp_path / "out", *servers) == 2
    assert "a server judges one language" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
    assert run(monkeypatch, in_both, tmp_path / "cuda", *servers, "--backend", "cuda") == 0
    assert run(monkeypatch, in_both, tmp_path / "triton", *servers, "--backend", "triton") == 0
    assert asked == ["cuda_cpp", "triton"]
    assert len(outcomes_in(tmp_path / "cuda")) == 2
    assert len(outcomes_in(tmp_path / "triton")) == 1


def test_a_language_that_no_kernel_has_is_refused(dataset, tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, dataset, tmp_path / "out", "--backend", "cuda") == 2
    assert "all kernels of" in " ".join(capsys.readouterr().err.split())
