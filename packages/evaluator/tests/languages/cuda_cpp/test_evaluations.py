"""Whole evaluations of candidates in CUDA C++, and of candidates in the other language than the evaluator's."""

import sys

import pytest

from warpsmith.evaluator import Problem
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.languages.cuda_cpp import toolkit

PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return x + y

def get_inputs():
    return [torch.randn(20, 30), torch.randn(20, 30)]
"""
CUDA = """\
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

module = load_inline("add", "", "", functions=["add"])

class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
"""


@pytest.mark.slow
def test_cuda_under_an_evaluator_of_triton_says_how_to_judge_it(evaluator):
    verdict = evaluator.evaluate(Problem.from_source(PROBLEM, "add"), CUDA, trials=1)
    assert (verdict.status, verdict.error_category) == ("compile_error", "parse_error")
    assert verdict.error_message == (
        "The candidate is written in CUDA C++, and this evaluator judges Triton. Write @triton.jit kernels, or let it "
        "be judged with language = 'cuda_cpp' (--backend cuda)."
    )


@pytest.mark.slow
def test_both_languages_under_an_evaluator_of_triton_say_which_language_takes_both(evaluator):
    both = f"import triton\n{CUDA}"
    verdict = evaluator.evaluate(Problem.from_source(PROBLEM, "add"), both, trials=1)
    assert verdict.status == "runtime_error"
    remark = (
        "The candidate uses CUDA C++ beside Triton, and this evaluator judges Triton alone. Let it be judged with "
        "language = 'cuda_cpp' (--backend cuda), which takes both."
    )
    assert (verdict.error_message, verdict.flags) == (remark, ("other_language",))
    failing = f"{both}\nraise ValueError('it is not the build')\n".replace('module = load_inline("add"', "# ")
    verdict = evaluator.evaluate(Problem.from_source(PROBLEM, "add"), failing, trials=1)
    assert verdict.error_message.startswith(f"{remark} What failed here: ValueError: it is not the build")


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """Runs `check` on a problem and a candidate; returns its exit code, and what it prints."""
    problem, candidate = tmp_path / "1_Add.py", tmp_path / "candidate.py"
    problem.write_text(PROBLEM)
    candidate.write_text(CUDA)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", "check", str(problem), str(candidate), *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def test_recording_on_a_device_that_runs_no_kernels_is_refused_in_one_paragraph_with_exit_code_2(checked):
    code, printed = checked("--backend", "cuda", "--device", "cpu", "--recording", "on_device")
    assert code == 2
    assert "Use recording = detached" in " ".join(printed.err.split())
    assert printed.out == ""
    assert "\n\n" not in printed.err.strip()


def test_without_a_toolkit_check_says_what_to_install_and_ends_with_exit_code_2(checked, monkeypatch):
    def absent():
        raise toolkit.ToolkitError("There is none.", toolkit.INSTALL)

    monkeypatch.setattr(toolkit, "find", absent)
    code, printed = checked("--backend", "cuda")
    assert code == 2
    assert "pip install './packages/evaluator[cuda-cpp]'" in " ".join(printed.err.split())
    assert printed.out == ""
