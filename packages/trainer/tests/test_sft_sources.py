"""A run learns from each kind of source."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsmith.policy.config import PolicyConfig
from warpsmith.policy.loading import load_chat
from warpsmith.records.reader import RunReader
from warpsmith.records.writer import RunWriter
from warpsmith.trainer.config.sections import CheckpointSection, WandbSection, ZeroSection
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftOptimizerSection, SftRunSection
from warpsmith.trainer.examples.data import open_data
from warpsmith.trainer.sft import _Sft

pytestmark = pytest.mark.slow

KERNELS = "import triton\n\n\nclass Net{n}New(object):\n\n    def forward(self, x):\n        return x + {n}\n"


def chats(folder: Path, turns_table: Any) -> dict[str, Any]:
    rows = [
        {"conversations": [{"from": "human", "value": f"x{n}"}, {"from": "gpt", "value": f"y = x + {n}"}]}
        for n in range(12)
    ]
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {"source": "chats", "path": folder / "*.jsonl"}


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
    return {"source": "kernelbook", "path": folder / "dataset_permissive.parquet", "prompt_style": "compact"}


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
    return {"source": "records", "path": folder / "earlier"}


@pytest.mark.parametrize("make", [chats, kernelbook, records])
def test_a_run_learns_from_each_source(
    tmp_path: Path, tiny: Path, alone: Any, turns_table: Any, make: Callable[[Path, Any], dict[str, Any]]
) -> None:
    config = SftConfig(
        run=SftRunSection(dir=tmp_path / "run", epochs=4, torch_threads=1),
        policy=PolicyConfig(path=str(tiny), dtype="float32"),
        data=SftDataSection(**make(tmp_path, turns_table), batch_size=4, eval_examples=2, max_tokens=512),
        optimizer=SftOptimizerSection(lr=3e-3, schedule="wsd", warmup_ratio=0.1),
        zero=ZeroSection(packing=True),
        checkpoint=CheckpointSection(every=0, export_final=False),
        wandb=WandbSection(mode="disabled"),
    )
    data = open_data(config, load_chat(tiny), alone, resume=False)
    _Sft(config, alone, data).run(resume=False)
    steps = RunReader(config.run.dir).table("steps").to_pylist()
    assert len(steps) == 10
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    last = dict(steps[-1]["metrics"])
    assert last["epoch"] == 4
    assert last["padding_share"] == 0
    assert 0 < last["eval_accuracy"] <= 1
