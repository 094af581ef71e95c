"""Problems that cannot be judged: one paragraph says what is wrong, however the evaluator is called."""

import subprocess
import sys

import pytest

from warpsmith.evaluator import BadProblemError, Problem
from warpsmith.evaluator.cli import INVALID_EXIT_CODE, main

MODEL = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return {}\n"
GOOD_INPUTS = "def get_inputs():\n    return [torch.randn(20, 30)]\n"


def answering(expression: str) -> str:
    return MODEL.format(expression) + GOOD_INPUTS


def given(expression: str) -> str:
    return f"{MODEL.format('x * 2')}def get_inputs():\n    return {expression}\n"


SYNTAX = {
    "empty": ("", "no Model"),
    "no_model": ("x = 1\n", "no Model"),
    "no_inputs": (MODEL.format("x"), "no get_inputs"),
    "syntax": ("class Model(:\n", "line 1"),
}
"""What is found before any process is started: the source, and words that the message must hold."""

RUN = {
    "no_module": ("import torch\nModel = 3\n" + GOOD_INPUTS, "must be a class"),
    "no_module_of_torch": ("class Model: pass\ndef get_inputs(): return []\n", "nn.Module"),
    "no_import": ("import nowhere_to_be_found\n" + answering("x"), "nowhere_to_be_found"),
    "constructor": (answering("x") + "def get_init_inputs():\n    return [3]\n", "raised in load: TypeError"),
    "inputs_raise": (given("[][1]"), "raised in get_inputs: IndexError"),
    "inputs_exit": (given("exit(3)"), "SystemExit: 3"),
    "inputs_leave": (given("[__import__('os')._exit(0)]"), "ended without an answer"),
    "no_list": (given("3"), "must return a list"),
    "bare_tensor": (given("torch.randn(3, 4)"), "must return a list"),
    "no_tensor": (given("[3]"), "returns no tensor"),
    "odd_value": (given("[torch.randn(3), object()]"), "type builtins.object cannot be sent"),
    "sparse": (given("[torch.randn(3, 4).to_sparse()]"), "sparse_coo cannot be sent"),
    "no_data": (given("[torch.randn(3, device='meta')]"), "meta tensor"),
    "bf16": (given("[torch.randn(3).bfloat16()]"), "bfloat16"),
    "bf16_answer": (answering("x.bfloat16()"), "bfloat16"),
    "large_inputs": (given("[torch.zeros(1).expand(1 << 31)]"), "max_tensor_bytes"),
    "large_answer": (answering("x.sum().expand(1 << 31)"), "max_tensor_bytes"),
    "memory": (answering("torch.zeros(1 << 36)"), "allocate memory"),
    "raises": (answering("x.no_such_method()"), "raised in forward: AttributeError"),
    "answers_nothing": (answering("'text'"), "no tensor"),
    "odd_answer": (answering("object()"), "Output is of type object, which cannot be compared"),
    "random": (answering("torch.rand_like(x)"), "randomness"),
    "constant": (answering("torch.zeros(3) * x.sum()"), "degenerate"),
    "endless": (answering("[i for i in iter(int, 1)]"), "gave no answer"),
    "asleep": (answering("__import__('time').sleep(1e6)"), "gave no answer"),
    "fault": (answering("__import__('ctypes').string_at(0)"), "signal 11"),
    "no_text": (answering("{}[chr(0xD800)]"), "KeyError: '\\ud800'"),
    "no_text_at_all": (answering("exit(chr(0xD800))"), "SystemExit: ?"),
}
"""What is found by running it."""


ENDLESS = ("endless", "asleep")
ATTEMPTS = 40
"""Most evaluations of a problem that does not end, while others have the processors."""


def is_one_paragraph(text: str) -> bool:
    return "\n\n" not in text.strip() and "Traceback" not in text and ".." not in text.replace("...", "")


@pytest.mark.parametrize("name", RUN)
def test_a_problem_that_cannot_be_run_says_why_and_what_to_do(request, add_candidate, name):
    source, says = RUN[name]
    judge = request.getfixturevalue("lenient" if name in ENDLESS else "evaluator")
    with pytest.raises(BadProblemError) as caught:
        for _ in range(ATTEMPTS):
            # Where others had the processors, nothing is known about who did not end.
            assert judge.evaluate(Problem.from_source(source, name), add_candidate).status == "invalid"
            assert name in ENDLESS
    assert says in str(caught.value)
    assert caught.value.remedy
    assert is_one_paragraph(str(caught.value)), str(caught.value)


@pytest.fixture
def candidate(tmp_path, add_candidate):
    path = tmp_path / "candidate.py"
    path.write_text(add_candidate)
    return path


def is_refusal(code: int | str | None, stdout: str, stderr: str, says: str) -> bool:
    assert (code, stdout) == (2, ""), (code, stdout, stderr)
    assert says in " ".join(stderr.split()), stderr
    assert stderr.startswith("error: ")
    return is_one_paragraph(stderr)


@pytest.fixture
def refused(capsys, monkeypatch):
    """Tells whether `check`, run in this process, refuses a problem with words that hold what is given last."""

    def run(path, candidate, *options, says) -> bool:
        monkeypatch.setattr(sys, "argv", ["warpsmith-evaluator", "check", str(path), str(candidate), *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return is_refusal(ended.value.code, *capsys.readouterr(), says)

    return run


@pytest.fixture
def no_process(monkeypatch):
    """Fails a test that starts a process: an evaluator takes seconds to start."""

    def start(command, **_):
        raise AssertionError(f"started {command}")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
@pytest.mark.parametrize("name", SYNTAX)
def test_the_command_refuses_a_source_that_is_no_problem(tmp_path, candidate, refused, name, options):
    source, says = SYNTAX[name]
    (tmp_path / f"{name}.py").write_text(source)
    assert refused(tmp_path / f"{name}.py", candidate, *options, says=says)


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_the_command_refuses_a_file_that_is_none(tmp_path, candidate, refused, options):
    (tmp_path / "binary.py").write_bytes(bytes(range(256)))
    assert refused(tmp_path / "missing.py", candidate, *options, says="does not exist")
    assert refused(tmp_path, candidate, *options, says="is a directory")
    assert refused(tmp_path / "binary.py", candidate, *options, says="not UTF-8")
    assert refused("/dev/null/x.py", candidate, *options, says="cannot be read")


@pytest.mark.slow
def test_the_command_refuses_a_problem_that_cannot_be_run(tmp_path, candidate):
    source, says = RUN["endless"]
    (tmp_path / "endless.py").write_text(source)
    arguments = [str(tmp_path / "endless.py"), str(candidate), "--reference-timeout", "1", "--json"]
    command = [sys.executable, "-m", "warpsmith.evaluator", "check", *arguments]
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode != INVALID_EXIT_CODE:
            break  # else others had the processors, and nothing is known of who did not end
    assert is_refusal(done.returncode, done.stdout, done.stderr, says)
