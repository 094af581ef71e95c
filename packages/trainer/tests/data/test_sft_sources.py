"""A run learns from each kind of source, and goes on where it was cut."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import load_chat
from warpsmith.records.reader import RunReader
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import CheckpointSection, WandbSection, ZeroSection
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftOptimizerSection, SftRunSection
from warpsmith.trainer.data.dataset import open_data
from warpsmith.trainer.runs.sft import SftRun

pytestmark = pytest.mark.slow

KERNELS = "import triton\n\n\nclass Net{n}New(object):\n\n    def forward(self, x):\n        return x + {n}\n"


def chats(folder: Path, turns_table: Any) -> dict[str, Any]:
    rows = [
        {"conversations": [{"from": "human", "value": f"x{n}"}, {"from": "gpt", "value": f"y = x + {n}"}]}
        for n in range(12)
    ]
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {"type": "chats", "path": folder / "*.jsonl"}


def kernelbook(folder: Path, turns_table: Any) -> dict[str, Any]:
    rows = [
        {
            "entry_point": f"Net{n}",
            "python_code": f"class Net{n}(object):\n\n    def forward(self, x):\n        return x + {n}\n",
            "triton_code": KERNELS.format(n=n),
            "original_triton_code": "",
            "uuid": n,
        }
        for n in range(12)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "dataset_permissive.parquet")
    return {"type": "kernelbook", "path": folder / "dataset_permissive.parquet", "prompt_style": "compact"}


def records(folder: Path, turns_table: Any) -> dict[str, Any]:
    verdict = {"status": "correct", "compiled": True, "correct": True}
    turns = [
        {
            "trajectory": f"g/{n}",
            "problem": f"p{n}",
            "completion": f"y = x + {n}",
            "kernel": f"k{n}",
            "verdict": verdict,
        }
        for n in range(12)
    ]
    with RunWriter(folder / "earlier") as writer:
        writer.append("turns", turns_table(turns))
    return {"type": "records", "path": folder / "earlier"}


def config_of(tiny: Path, folder: Path, data: SftDataSection, **run: Any) -> SftConfig:
    return SftConfig(
        run=SftRunSection(dir=folder, torch_threads=1, **run),
        policy=PolicyConfig(path=str(tiny), dtype="float32"),
        data=data,
        optimizer=SftOptimizerSection(lr=3e-3, schedule="constant", warmup_steps=2),
        zero=ZeroSection(packing=True),
        checkpoint=CheckpointSection(every=0),
        wandb=WandbSection(mode="disabled"),
    )


def run(config: SftConfig, tiny: Path, ranks: Any, *, resume: bool = False) -> list[dict[str, Any]]:
    """Run to the end; return the steps that are recorded."""
    data = open_data(config, load_chat(tiny), ranks, resume=resume)
    SftRun(config, ranks, data).run(resume)
    return RunReader(config.run.dir).table("steps", latest=True).to_pylist()


@pytest.mark.parametrize("make", [chats, kernelbook, records])
def test_a_run_learns_from_each_source(
    tmp_path: Path, tiny: Path, alone: Any, turns_table: Any, make: Callable[[Path, Any], dict[str, Any]]
) -> None:
    data = SftDataSection(source=make(tmp_path, turns_table), batch_size=4, eval_examples=2, max_tokens=512)
    steps = run(config_of(tiny, tmp_path / "run", data, epochs=4), tiny, alone)
    assert len(steps) == 10
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    last = dict(steps[-1]["metrics"])
    assert last["epoch"] == 4
    assert last["padding_share"] == 0
    assert 0 < last["eval_accuracy"] <= 1


def test_a_run_cut_within_an_epoch_goes_on_bit_for_bit_without_its_sources(
    tmp_path: Path, tiny: Path, alone: Any, turns_table: Any
) -> None:
    parts = (chats(tmp_path, None), records(tmp_path, turns_table) | {"weight": 0.5})
    data = SftDataSection(sources=parts, batch_size=4, eval_examples=2)
    whole = run(config_of(tiny, tmp_path / "whole", data, epochs=2), tiny, alone)
    run(config_of(tiny, tmp_path / "cut", data, epochs=2, steps=3), tiny, alone)
    shutil.rmtree(tmp_path / "earlier")
    (tmp_path / "c.jsonl").unlink()
    cut = run(config_of(tiny, tmp_path / "cut", data, epochs=2), tiny, alone, resume=True)
    assert 0 < dict(cut[2]["metrics"])["epoch"] < 1
    assert [step["loss"] for step in cut] == [step["loss"] for step in whole]
    one, other = (load_file(tmp_path / name / "final_model/model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
