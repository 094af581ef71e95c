"""Against Megatron-Core itself, on a CPU: its checkpoints are converted, and it loads what the package writes.

Megatron-Core is installed into a folder of its own, for a process of its own; without a package index this is skipped.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import torch
from megatron_files import ITERATION, Case, write_mp_rank, write_torch_dist
from torch.distributed.checkpoint import FileSystemReader
from transformers import AutoModelForCausalLM

from warpsmith.policy.megatron.convert import to_hugging_face
from warpsmith.policy.megatron.export import to_megatron
from warpsmith.policy.packages import has_pip

# Minutes of several processes; that files of this form are converted is tested in every run.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

RELEASE = "megatron-core==0.16.1"
WORKER = Path(__file__).parent.parent / "support" / "megatron_worker.py"
QUIET: dict[str, Any] = {"say": lambda _: None}

# Each family, tied and untied, each number of shards with each number of stages.
CASES = {
    "llama": Case("llama", tied=False, tp=2, pp=1),
    "llama-tied": Case("llama", tied=True, tp=1, pp=1),
    "qwen2": Case("qwen2", tied=False, tp=2, pp=2),
    "qwen2-tied": Case("qwen2", tied=True, tp=1, pp=2),
    "qwen3": Case("qwen3", tied=False, tp=2, pp=2),
    "qwen3-tied": Case("qwen3", tied=True, tp=2, pp=2),
}


@pytest.fixture(scope="module")
def megatron(tmp_path_factory) -> Path:
    """A folder from which Megatron-Core can be imported."""
    folder = tmp_path_factory.mktemp("megatron")
    if has_pip():
        command = [sys.executable, "-m", "pip", "install"]
    elif (uv := which("uv", path=str(Path(sys.executable).parent)) or which("uv")) is not None:
        command = [uv, "pip", "install", "--python", sys.executable]
    else:
        pytest.skip("needs pip or uv")
    done = subprocess.run(
        [*command, "--quiet", "--no-deps", "--target", str(folder), RELEASE],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"{RELEASE} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return folder


def run_worker(megatron: Path, mode: str, cases: dict[Path, Case]) -> None:
    """Let Megatron save or load each case under the path it is given."""
    files = []
    for out, case in cases.items():
        file = out.with_suffix(f".{mode}.json")
        file.write_text(json.dumps({**vars(case), "out": str(out)}))
        files.append(str(file))
    environment = {**os.environ, "PYTHONPATH": str(megatron), "PYTHONWARNINGS": "ignore"}
    # A rank that fails leaves helpers of Megatron's behind, so all of the worker's processes are ended.
    log = next(iter(cases)).parent / f"{mode}.log"
    with log.open("w") as stream:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), mode, *files],
            env=environment, stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip
        try:
            code = worker.wait(timeout=1500)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
    assert code == 0, log.read_text()[-3000:]


@pytest.fixture(scope="module")
def saved(megatron, tmp_path_factory) -> dict[str, Path]:
    """Megatron's checkpoints of each case, in each layout."""
    folder = tmp_path_factory.mktemp("saved")
    found = {name: folder / name for name in CASES}
    run_worker(megatron, "save", {found[name]: case for name, case in CASES.items()})
    return found


def logprobs(directory: Path, ids: torch.Tensor) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(ids).logits.double().log_softmax(-1)


@pytest.mark.parametrize("name", CASES)
def test_log_probabilities_are_megatrons(saved, tmp_path, name):
    """In each layout: torch_dist, its newer form of keys, one file per rank, and interleaved stages."""
    expected = torch.load(saved[name].with_suffix(".save.pt"))
    layouts = sorted(path for path in saved[name].iterdir() if path.is_dir())
    assert len(layouts) == (4 if CASES[name].pp > 1 else 3)
    assert expected["logprobs"].std() > 0.5
    for layout in layouts:
        out = to_hugging_face(layout, tmp_path / layout.name, **QUIET)
        torch.testing.assert_close(logprobs(out, expected["ids"]), expected["logprobs"], atol=2e-5, rtol=0)


def index_of(directory: Path) -> dict[str, Any]:
    """Shapes and chunks of the model in an index, as torch reads it."""
    index = FileSystemReader(directory / ITERATION).read_metadata()
    return {
        key: (tuple(entry.size), sorted((tuple(c.offsets), tuple(c.sizes)) for c in entry.chunks))
        for key, entry in index.state_dict_metadata.items()
        if hasattr(entry, "chunks") and not key.startswith("optimizer")
    }


def ranks_of(directory: Path) -> dict[str, Any]:
    """Names and shapes of the tensors of each rank."""
    found = {}
    for file in sorted((directory / ITERATION).glob("mp_rank_*/*.pt")):
        # The writer is this test's own worker; its arguments have Megatron's classes, which the package stands in for.
        from warpsmith.policy.megatron.pickles import read_torch_file

        state = read_torch_file(file)
        found[file.parent.name] = {
            (part, name): tuple(value.shape)
            for part in state
            if part.startswith("model")
            for name, value in state[part].items()
            if isinstance(value, torch.Tensor)
        }
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_files_of_other_tests_have_the_form_of_megatrons(saved, tmp_path, name):
    case = CASES[name]
    model = AutoModelForCausalLM.from_pretrained(
        to_hugging_face(saved[name] / "torch_dist", tmp_path / "hf", **QUIET), dtype=torch.float32
    )
    for layout in ("torch_dist", "apart"):
        ours = write_torch_dist(tmp_path / layout, model, case, apart=layout == "apart")
        assert index_of(ours) == index_of(saved[name] / layout), layout
    for layout in ("mp_rank", "interleaved")[: 1 + (case.pp > 1)]:
        ours = write_mp_rank(tmp_path / layout, model, case, interleaved=layout == "interleaved")
        assert ranks_of(ours) == ranks_of(saved[name] / layout), layout


def test_megatron_loads_what_is_written(megatron, saved, tmp_path):
    """A Hugging Face directory, made from two stages of two shards, comes back into other numbers of them."""
    shapes = {"llama": (1, 2), "qwen2": (2, 2), "qwen2-tied": (1, 2), "qwen3": (2, 1), "qwen3-tied": (2, 2)}
    written = {}
    for name, (tp, pp) in shapes.items():
        directory = to_hugging_face(saved[name] / "torch_dist", tmp_path / f"{name}-hf", **QUIET)
        out = to_megatron(directory, tmp_path / name, **QUIET)
        written[out] = Case(CASES[name].family, tied=CASES[name].tied, tp=tp, pp=pp)
    run_worker(megatron, "load", written)
    for out in written:
        expected = torch.load(saved[out.name].with_suffix(".save.pt"))
        found = torch.load(out.with_suffix(".load.pt"))
        torch.testing.assert_close(found["logprobs"], expected["logprobs"], atol=2e-5, rtol=0)
