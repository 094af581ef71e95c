"""Turns and megabytes recorded per second by size of turn, compared with one JSON file per turn and with JSON lines.

Each way writes the same turns to the same file system. Batches are prepared in advance, because a rollout has its rows
in either form at no extra cost; serialising (Arrow or JSON) is timed. Writers run as processes that start together; the
figure is all turns over the time from the common start to the end of the last writer. A second figure divides by the
writers' CPU time (user and system), which other load hardly affects. Megabytes (10^6) are those of the turn as plain
Arrow for every way, so that they are comparable. Unless stated otherwise nothing waits for the disk: written data
survives the process, not a power loss. The same holds for JSON.

    python benchmarks/records.py
"""

import argparse
import json
import multiprocessing
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
from _machine import describe, write_result

from warpsmith.records import RunReader, RunWriter
from warpsmith.records.schema import turns_batch

# Tokens of prompt and completion, bytes of kernel: a turn of the demo's tiny model, and two of a language model. The
# completion's text has four bytes per token.
SHAPES = {"100 tokens": (120, 100, 300), "1,000 tokens": (1000, 1000, 2400), "4,000 tokens": (4000, 4000, 6000)}
TURNS_A_BATCH = {"100 tokens": 1024, "1,000 tokens": 256, "4,000 tokens": 64}
TURNS = {"100 tokens": 204_800, "1,000 tokens": 20_480, "4,000 tokens": 5_120}
JSON_TURNS = {"100 tokens": 8_192, "1,000 tokens": 2_048, "4,000 tokens": 512}
WORDS = [
    *("tl.load(", "tl.store(", "x_ptr", "y_ptr", "+", "offsets,", "mask=mask)", "=", "acc", "tl.program_id(0)"),
    *("tl.constexpr", "n_elements", "*", "tl.arange(0,", "BLOCK)", "for", "k", "in", "range(", "):", "@triton.jit"),
    *("def", "kernel(", "return", "tl.dot(a,", "b)", "tl.maximum(", "0.0", "1.0", "if", "\n", "\n    ", ""),
]


Way = Callable[[Path, Barrier, int], tuple[float, float]]


def written(chance: random.Random, length: int) -> str:
    """About `length` characters of program text in random order: compressible, but not by repetition."""
    return " ".join(chance.choices(WORDS, k=length // 8))[:length]


def turn_row(shape: str, number: int) -> dict[str, Any]:
    prompt, completion, kernel = SHAPES[shape]
    chance = random.Random(number)
    text = written(chance, kernel)
    return {
        "run": "benchmark",
        "task": "kernelbench_multiturn",
        "role": "train",
        "problem": f"problem_{number % 97}",
        "source": "generated",
        "level": 1,
        "group": f"g{number // 24}",
        "trajectory": f"t{number // 3}",
        "sample": number % 8,
        "turn": number % 3,
        "num_turns": 3,
        "messages": [{"role": "user", "content": written(chance, 4 * prompt)}],
        "completion": f"{written(chance, max(4 * completion - kernel, 0))}\n```python\n{text}\n```",
        "kernel": text,
        "prompt_ids": [chance.randrange(150_000) for _ in range(prompt)],
        "completion_ids": [chance.randrange(150_000) for _ in range(completion)],
        "logprobs": [-chance.expovariate(2.0) for _ in range(completion)],
        "weight_versions": [number // 512] * completion,
        "finish_reason": "stop",
        "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 4096, "seed": number},
        "verdict": {
            "status": "incorrect",
            "compiled": True,
            "correct": False,
            "isolation_tier": "namespaces",
            "flags": [],
            "error_category": "unknown",
            "error_message": "output 0: 12 % of the elements differ, the largest by 0.31",
            "trials": 5,
            "seconds": {"compile": 0.11, "wait": 0.002, "evaluate": 0.09},
        },
        "reward": 0.1,
        "return": 0.14,
        "valid": True,
        "started_at": 1_754_556_481_411_804 + number,
        "generate_s": 1.5,
        "compile_s": 0.11,
        "wait_s": 0.002,
        "evaluate_s": 0.09,
    }


def arrow(shape: str, compression: str | None, durability: str) -> Way:
    def write(folder: Path, start: Barrier, turns: int) -> tuple[float, float]:
        batch = turns_batch([turn_row(shape, number) for number in range(TURNS_A_BATCH[shape])])
        with RunWriter(folder, compression=compression, durability=durability) as writer:  # type: ignore[arg-type]
            start.wait()
            began = time.process_time()
            for _ in range(turns // batch.num_rows):
                writer.append("turns", batch)
            return time.monotonic(), time.process_time() - began

    return write


def json_files(shape: str) -> Way:
    def write(folder: Path, start: Barrier, turns: int) -> tuple[float, float]:
        folder.mkdir(parents=True, exist_ok=True)
        rows = [turn_row(shape, number) for number in range(TURNS_A_BATCH[shape])]
        name = multiprocessing.current_process().pid
        start.wait()
        began = time.process_time()
        for number in range(turns):
            path = folder / f"turn_{name}_{number}.json"
            path.write_text(json.dumps(rows[number % len(rows)], indent=2), encoding="utf-8")
        return time.monotonic(), time.process_time() - began

    return write


def json_lines(shape: str) -> Way:
    def write(folder: Path, start: Barrier, turns: int) -> tuple[float, float]:
        folder.mkdir(parents=True, exist_ok=True)
        rows = [turn_row(shape, number) for number in range(TURNS_A_BATCH[shape])]
        with (folder / f"{multiprocessing.current_process().pid}.jsonl").open("w", encoding="utf-8") as file:
            start.wait()
            began = time.process_time()
            for first in range(0, turns, len(rows)):
                file.writelines(json.dumps(row) + "\n" for row in rows[: turns - first])
                file.flush()
        return time.monotonic(), time.process_time() - began

    return write


def rate(way: Way, folder: Path, writers: int, turns: int) -> tuple[float, float]:
    """Turns per second, and turns per CPU second, of `writers` processes that together write `turns`."""
    context = multiprocessing.get_context("fork")
    start, ends = context.Barrier(writers + 1), context.SimpleQueue()
    processes = [context.Process(target=lambda: ends.put(way(folder, start, turns // writers))) for _ in range(writers)]
    for process in processes:
        process.start()
    start.wait()
    began = time.monotonic()
    found = [ends.get() for _ in processes]
    for process in processes:
        process.join()
    return turns / (max(end for end, _ in found) - began), turns / sum(cpu for _, cpu in found)


def measure(shape: str, turn_bytes: int, disk: Path, repeats: int) -> dict[str, Any]:
    """Turns and megabytes per second of each way for turns of one shape, which take `turn_bytes` as plain Arrow."""
    ways: dict[str, tuple[Way, int, int]] = {}
    for writers in (1, 2):
        ways[f"arrow lz4 (default), {writers} writer(s)"] = (arrow(shape, "lz4", "process-kill"), writers, TURNS[shape])
        ways[f"arrow plain, {writers} writer(s)"] = (arrow(shape, None, "process-kill"), writers, TURNS[shape])
        ways[f"json lines, {writers} writer(s)"] = (json_lines(shape), writers, JSON_TURNS[shape])
        ways[f"one json file a turn, {writers} writer(s)"] = (json_files(shape), writers, JSON_TURNS[shape])
    ways["arrow lz4, fdatasync twice a batch, 1 writer(s)"] = (arrow(shape, "lz4", "power-loss"), 1, TURNS[shape] // 4)
    found: dict[str, Any] = {}
    for name, (way, writers, turns) in ways.items():
        rates, cpu_rates = [], []
        for _ in range(repeats):
            folder = Path(tempfile.mkdtemp(dir=disk))
            wall, cpu = rate(way, folder, writers, turns)
            rates.append(wall)
            cpu_rates.append(cpu)
            shutil.rmtree(folder)
        found[name] = {
            "turns_per_s": round(statistics.median(rates)),
            "of": [round(one) for one in sorted(rates)],
            "mb_per_s": round(statistics.median(rates) * turn_bytes / 1e6, 1),
            "turns_per_cpu_s": round(statistics.median(cpu_rates)),
        }
        print(
            f"{shape:12} {name:44} {found[name]['turns_per_s']:>9,} turns/s {found[name]['mb_per_s']:>8} MB/s "
            f"{found[name]['turns_per_cpu_s']:>9,} turns/CPU s",
            flush=True,
        )
    return found


def reading(shape: str, disk: Path) -> float:
    """Turns per second read back, with every digest checked."""
    folder = Path(tempfile.mkdtemp(dir=disk))
    rate(arrow(shape, "lz4", "process-kill"), folder, 1, TURNS[shape] // 4)
    began = time.monotonic()
    rows = sum(batch.num_rows for batch in RunReader(folder).batches("turns"))
    took = time.monotonic() - began
    shutil.rmtree(folder)
    return rows / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--disk", type=Path, default=Path(tempfile.gettempdir()), help="where to write (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each way; the median counts (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "records.json")
    options = parser.parse_args()
    result = describe(["warpsmith-records", "pyarrow"])
    result["what"] = "turns recorded a second; median of the runs listed under `of`"
    result["shapes"] = {}
    for shape, (prompt, completion, kernel) in SHAPES.items():
        batch = turns_batch([turn_row(shape, number) for number in range(64)])
        turn_bytes = round(pa.ipc.get_record_batch_size(batch) / batch.num_rows)
        result["shapes"][shape] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "kernel_bytes": kernel,
            "arrow_bytes_per_turn": turn_bytes,
            "turns_per_batch": TURNS_A_BATCH[shape],
            "written": measure(shape, turn_bytes, options.disk, options.repeats),
            "read_turns_per_s": round(reading(shape, options.disk)),
        }
    write_result(options.out, result)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
