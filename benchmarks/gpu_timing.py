"""Whether the evaluator's times agree with `triton.testing.do_bench` and with CUPTI, on honest kernels.

Each kernel is judged twice with every guard on. Then this process times the same forward on the same sizes, with
`do_bench` (median, its own L2 flush) and with torch's profiler, which takes the kernels' own durations from CUPTI.
Candidates are elementwise and row kernels, matrix products and long loops, from a few microseconds to 50 ms and more.
The driver slows down a kernel that exceeds the device's power limit: each row records what the driver reported during
`do_bench`.

    python benchmarks/gpu_timing.py
"""

import argparse
import hashlib
import importlib.util
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from _machine import describe, need_gpu, visible_gpu, write_result
from _plot import scatter
from triton.testing import do_bench

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, Verdict

HERE = Path(__file__).parent
HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"

ADD = """
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
"""
SOFTMAX = """
@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64) * columns
    values = tl.load(x + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
        return out
"""
MATMUL = """
@triton.jit
def matmul_kernel(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    column = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for first in range(0, size, K):
        inner = first + tl.arange(0, K)
        total += tl.dot(tl.load(a + row * size + inner[None, :]), tl.load(b + inner[:, None] * size + column))
    tl.store(c + row * size + column, total.to(c.dtype.element_ty))

class ModelNew(nn.Module):
    def forward(self, a, b):
        size = a.shape[0]
        c = torch.empty_like(a)
        grid = (size // 128, size // 128)
        matmul_kernel[grid](a, b, c, size, M=128, N=128, K=64, num_warps=8, num_stages=3)
        return c
"""
SINES = """
@triton.jit
def sines_kernel(x, out, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    for _ in range(TIMES):
        values = tl.sin(values)
    tl.store(out + at, values, mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sines_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), TIMES=64, BLOCK=1024)
        return out
"""
# One program walks a whole row with dependent loads: far slower than torch, with exactly the same result.
AMAX = """
@triton.jit
def amax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(x + row + at, mask=at < columns, other=-float("inf")))
    tl.store(out + tl.program_id(0), tl.max(most, axis=0))

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        amax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128, num_warps=1, num_stages=1)
        return out
"""
SINES_REFERENCE = """class Model(nn.Module):
    def forward(self, x):
        for _ in range(64):
            x = torch.sin(x)
        return x
"""

READINGS = 3
"""Number of `do_bench` readings: a single one was a third above those of other runs on the same machine."""


def problem(forward: str, inputs: str) -> str:
    arguments = "x, y" if "y" in forward.split() else "x"
    return (
        f"{HEAD}class Model(nn.Module):\n    def forward(self, {arguments}):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield name, problem and candidate of each kernel, from the shortest to the longest of its kind."""
    for power in range(16, 31, 2):
        shape = f"torch.randn({2 ** (power // 2)}, {2 ** (power - power // 2)})"
        yield f"add 2^{power}", problem("x + y", f"{shape}, {shape}"), HEAD + ADD
    for rows in (2**9, 2**12, 2**15, 2**18):
        yield f"softmax {rows}x2048", problem("torch.softmax(x, 1)", f"torch.randn({rows}, 2048)"), HEAD + SOFTMAX
    for power in (22, 25, 27, 28):
        inputs = f"def get_inputs():\n    return [torch.randn({2 ** (power - 10)}, 1024)]\n"
        yield f"sines 2^{power}", HEAD + SINES_REFERENCE + inputs, HEAD + SINES
    for power in (22, 24, 26):
        yield f"amax 16x2^{power}", problem("x.amax(1)", f"torch.randn(16, {2**power})"), HEAD + AMAX
    for size in (1024, 2048, 4096, 8192, 16384):
        square = f"torch.randn({size}, {size}, dtype=torch.float16)"
        yield f"matmul {size}", problem("x @ y", f"{square}, {square}"), HEAD + MATMUL


def load(source: str, folder: Path, name: str) -> Any:
    # Python recognises a compiled file by its time, in seconds, and size: other sources need other names.
    path = folder / f"{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cupti_ms(call: Callable[[], Any], repeats: int = 20) -> float | None:
    """The median over some calls of the total duration of its kernels, each after a cache flush."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(repeats):
            flush.zero_()
            call()
        torch.cuda.synchronize()
    own = [event for event in profile.events() if event.device_time > 0 and "fill" not in event.name.lower()]
    own = [event for event in own if "memset" not in event.name.lower()]
    if not own or len(own) % repeats:
        return None
    each = len(own) // repeats
    times = [sum(event.device_time for event in own[i : i + each]) / 1000 for i in range(0, len(own), each)]
    return statistics.median(times)


def power_capped(call: Callable[[], Any]) -> bool:
    """Whether the driver slows down the device for its power limit while a call is repeated."""
    command = ["nvidia-smi", "--query-gpu=clocks_event_reasons.sw_power_cap", "--format=csv,noheader"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asked:
        while asked.poll() is None:
            call()
            torch.cuda.synchronize()
        output = asked.communicate()[0]
    return output.splitlines()[0].strip() == "Active"


def peers(problem_source: str, candidate: str, folder: Path) -> dict[str, Any]:
    """Times of candidate and reference by `do_bench` and CUPTI, in milliseconds."""
    with torch.device("cuda"):
        given, made = load(problem_source, folder, "given"), load(candidate, folder, "made")
        inputs, reference, own = given.get_inputs(), given.Model(), made.ModelNew()
    with torch.no_grad():
        readings = [do_bench(lambda: own(*inputs), return_mode="median") for _ in range(READINGS)]
        return {
            "do_bench_ms": statistics.median(readings),
            "do_bench_readings_ms": readings,
            "power_capped": power_capped(lambda: own(*inputs)),
            "do_bench_reference_ms": do_bench(lambda: reference(*inputs), return_mode="median"),
            "cupti_ms": cupti_ms(lambda: own(*inputs)),
        }


def row(name: str, first: Verdict, second: Verdict, peer: dict[str, Any]) -> dict[str, Any]:
    ours, again, theirs = first.runtime_ms or 0.0, second.runtime_ms or 0.0, peer["do_bench_ms"] or 1.0
    cupti = peer["cupti_ms"]
    return {
        "kernel": name,
        "status": first.status,
        "timing_tier": first.timing_tier,
        "recording": first.recording,
        "flags": list(first.flags),
        "runtime_ms": ours,
        "again_ms": again,
        "reference_ms": first.reference_ms,
        **peer,
        "over_do_bench": ours / theirs,
        "over_cupti": ours / cupti if cupti else None,
        "reference_over_do_bench": (first.reference_ms or 0.0) / (peer["do_bench_reference_ms"] or 1.0),
        "again_over_first": again / ours if ours else None,
        "seconds": round(first.seconds.evaluate, 3),
    }


def show(found: dict[str, Any]) -> None:
    """Print one line of the table."""
    cupti = f"{found['cupti_ms']:.4f}" if found["cupti_ms"] else "-"
    print(
        f"{found['kernel']:18} {found['status']:9} {found['timing_tier']:10} ours {found['runtime_ms']:.4f} "
        f"again {found['again_ms']:.4f} do_bench {found['do_bench_ms']:.4f} cupti {cupti} "
        f"ratio {found['over_do_bench']:.3f} reference {found['reference_over_do_bench']:.3f} "
        f"{found['seconds']:.1f} s {'power-capped ' if found['power_capped'] else ''}{','.join(found['flags'])}",
        flush=True,
    )


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The reported figures: kernels of 20 microseconds and more, with and without those slowed by the driver."""
    longer = [found for found in rows if found["runtime_ms"] >= 0.02 and found["timing_tier"] == "two_clocks"]
    steady = [found for found in longer if not found["power_capped"]]
    return {"kernels_of_20_us_and_more": figures(longer), "of_these_not_power_capped": figures(steady)}


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = [found["over_do_bench"] for found in rows]
    spread = [abs(found["again_over_first"] - 1) for found in rows]
    return {
        "kernels": len(rows),
        "median_over_do_bench": statistics.median(ratios),
        "least_over_do_bench": min(ratios),
        "most_over_do_bench": max(ratios),
        "median_difference_of_two_runs": statistics.median(spread),
        "most_difference_of_two_runs": max(spread),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "gpu_timing.json")
    parser.add_argument("--only", default="", help="only kernels whose name starts with this")
    arguments = parser.parse_args()
    need_gpu()
    rows = []
    config = EvaluatorConfig(device="cuda", gpu=visible_gpu(), slots=1, ready_workers=2, timeout_s=60)
    with tempfile.TemporaryDirectory() as folder, Evaluator(config) as evaluator:
        for name, source, candidate in cases():
            if not name.startswith(arguments.only):
                continue
            first, second = (evaluator.evaluate(Problem(name, source), candidate) for _ in range(2))
            if first.status != "correct" or second.runtime_ms is None:
                print(f"{name}: {first.status} {first.error_message}", flush=True)
                continue
            rows.append(row(name, first, second, peers(source, candidate, Path(folder))))
            show(rows[-1])
            torch.cuda.empty_cache()
    machine = describe(("torch", "triton", "warpsmith-evaluator"))
    result = {**machine, "rows": rows, "summary": summary(rows)}
    print(result["summary"])
    write_result(arguments.out, result)
    points = [(found["do_bench_ms"], found["over_do_bench"], found["kernel"]) for found in rows]
    scatter(
        arguments.out.with_suffix(".svg"),
        points,
        title="The evaluator's time over do_bench's median",
        x_label="do_bench, milliseconds",
        y_label="ratio",
    )


if __name__ == "__main__":
    main()
