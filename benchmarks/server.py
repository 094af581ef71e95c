"""Checks the server under load: /health answers at once, and neither faults nor long use change anything.

`health`: /health is requested every 20 ms on one connection while all slots run evaluations, first of candidates that
sleep, then of honest ones that keep all cores busy. `faults`: kernels that write beyond their output, each with another
text, one after another per slot. `mixed`: an equal mix of correct, wrong, raising and faulting kernels and modules
without a kernel. Each must get the right status and category, and afterwards the server must be healthy, with the same
processes, descriptors and private memory as before.

    python benchmarks/server.py
    python benchmarks/server.py --device cuda
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from _machine import describe, write_result

from warpsmith.evaluator.server.child import ServerProcess

HERE = Path(__file__).parent
CORPUS = HERE.parent / "tests" / "attacks"
PROBLEM: Final = (CORPUS / "problems" / "add.py").read_text(encoding="utf-8")
HONEST: Final = (CORPUS / "controls" / "elementwise.py").read_text(encoding="utf-8")
SLEEPER: Final = """
import time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x, y):
        time.sleep(600)
"""
NO_KERNEL: Final = """
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x, y):
        return x + y
"""
FAULT: Final = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def beyond_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + FAR + at, tl.load(x_ptr + at, mask=at < n))

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        beyond_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
"""
FAR: Final = {"cpu": "n", "cuda": "(1 << 40)"}
"""Offset at which a fault is certain: beyond a tensor memory is inaccessible on a CPU; on a GPU the driver uses it."""
FAULTS: Final = {"runtime_error illegal_memory_access": FAULT}
MIXED: Final = {
    **FAULTS,
    "correct None": HONEST,
    "incorrect None": HONEST.replace("x + y, mask", "x - y, mask"),
    "runtime_error unknown": HONEST.replace("out = torch.empty_like(x)", "raise ValueError('no')"),
    "rejected None": NO_KERNEL,
}
"""Sources by their expected status and category."""
EVERY_S: Final = 0.02
SETTLE_S: Final = 60
SLEEP_S: Final = 300
"""Timeout of a sleeper: on a GPU it takes a minute until 64 of them run."""
WARM_UP: Final = 100
MOST_P99_MS: Final = 50
MOST_GROWTH_KIB: Final = 4096
KEPT_KIB: Final = 4
"""Private memory that a process may gain in a soak, plus per source: the judge caches 20,000 compilations."""


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    picked = {f"p{round(100 * share)}": ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9, 0.99)}
    return {f"{name}_ms": round(1e3 * value, 2) for name, value in {**picked, "max": ordered[-1]}.items()}


def client_of(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=url, limits=limits, timeout=900, trust_env=False)


def body(candidate: str, **fields: Any) -> dict[str, Any]:
    return {"problem": {"source": PROBLEM}, "candidate": candidate, **fields}


async def until_running(client: httpx.AsyncClient, count: int) -> None:
    async with asyncio.timeout(300):
        while sum(one["running"] for one in (await client.get("/gpu_status")).json()["devices"]) < count:
            await asyncio.sleep(0.05)


async def health_times(url: str, probes: int) -> dict[str, Any]:
    """Request /health repeatedly, from a process that does nothing else."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return await asyncio.get_running_loop().run_in_executor(alone, probe_health, url, probes)


def probe_health(url: str, probes: int) -> dict[str, Any]:
    return asyncio.run(probed(url, probes))


async def probed(url: str, probes: int) -> dict[str, Any]:
    took = []
    async with client_of(url) as client:
        await client.get("/health")
        for _ in range(probes):
            began = time.perf_counter()
            (await client.get("/health")).raise_for_status()
            took.append(time.perf_counter() - began)
            await asyncio.sleep(EVERY_S)
    return quantiles(took) | {"of": probes}


async def health_beside_sleepers(server: ServerProcess, slots: int, probes: int) -> dict[str, Any]:
    async with client_of(server.url) as client:
        asked = [
            asyncio.ensure_future(client.post("/v1/evaluate", json=body(SLEEPER, timeout_s=SLEEP_S)))
            for _ in range(slots)
        ]
        await until_running(client, slots)
        at_rest(server.process.pid)
        found = await health_times(server.url, probes)
        found["still_running"] = sum(not one.done() for one in asked)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    return found


async def health_beside_honest_work(url: str, slots: int, probes: int) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    async with client_of(url) as client:

        async def go_on(lane: int) -> None:
            for number in range(1 << 30):
                answer = await client.post("/v1/evaluate", json=body(f"{HONEST}\n# {lane} {number}\n"))
                statuses[answer.json()["verdict"]["status"]] += 1

        lanes = [asyncio.ensure_future(go_on(lane)) for lane in range(slots)]
        await until_running(client, slots)
        found = await health_times(url, probes)
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
    return found | {"verdicts_meanwhile": dict(statuses)}


def health(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time /health on an idle server, beside sleepers and beside honest work."""
    slots, probes = arguments.slots, arguments.probes
    options = ("--device", arguments.device, "--slots", str(slots), "--queue", "0")
    with ServerProcess(*options) as server:
        at_rest(server.process.pid)
        found = {"idle": asyncio.run(health_times(server.url, probes))}
        print(found, flush=True)
        found["beside sleepers"] = asyncio.run(health_beside_sleepers(server, slots, probes))
        print(found, flush=True)
        server.kill()
    with ServerProcess(*options) as server:
        found["beside honest work"] = asyncio.run(health_beside_honest_work(server.url, slots, probes))
        server.kill()
    return found


@dataclass(frozen=True)
class Held:
    """What the server, its judge and the zygotes hold at rest, and the number of workers."""

    private_kib: dict[int, int]
    descriptors: dict[int, int]
    workers: int

    @staticmethod
    def of(server: int) -> "Held":
        root = psutil.Process(server)
        judges = root.children()
        family = [root, *judges, *(zygote for judge in judges for zygote in judge.children())]
        workers = [worker for zygote in family[1 + len(judges) :] for worker in zygote.children()]
        return Held(
            {one.pid: private_kib(one.pid) for one in family},
            {one.pid: one.num_fds() for one in family},
            len(workers),
        )


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def at_rest(server: int, wanted: Held | None = None) -> Held:
    """Wait until two checks a second apart agree on the workers and, if given, on `wanted`."""
    deadline = time.monotonic() + SETTLE_S
    before, found = -1, Held.of(server)
    while (found.workers != before or (wanted and found.workers != wanted.workers)) and time.monotonic() < deadline:
        time.sleep(1)
        before, found = found.workers, Held.of(server)
    return found


def names(folder: Path) -> set[str]:
    """Return a folder's entries except multiprocessing's semaphores, which our processes do not create."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("sem.mp-")}


async def judged(url: str, sources: list[str], numbers: range, at_once: int) -> Counter[str]:
    """Judge the sources in turn, each time as another text, in each of `at_once` lanes; count the answers."""
    answers: Counter[str] = Counter()
    left = iter(numbers)
    async with client_of(url) as client:

        async def lane() -> None:
            for number in left:
                source = f"{sources[number % len(sources)]}\n# {number}\n"
                verdict = (await client.post("/v1/evaluate", json=body(source))).json()["verdict"]
                answers[f"{verdict['status']} {verdict['error_category']}"] += 1
                if sum(answers.values()) % 100 == 0:
                    print(f"{sum(answers.values())} answers: {dict(answers)}", flush=True)

        await asyncio.gather(*(lane() for _ in range(at_once)))
    return answers


def soak(wanted: dict[str, str], count: int, slots: int, device: str) -> dict[str, Any]:
    """Soak a separate server in its own temporary folder, and report what it held before and after."""
    sources = [source.replace("FAR", FAR[device]) for source in wanted.values()]
    count -= count % len(sources)
    with tempfile.TemporaryDirectory() as folder:
        shared = names(Path("/dev/shm"))
        with ServerProcess("--device", device, "--slots", str(slots), TMPDIR=folder) as server:
            # The first ones bring reference workers, caches and pools to their steady state.
            asyncio.run(judged(server.url, sources, range(-WARM_UP, 0), slots))
            before = at_rest(server.process.pid)
            began = time.perf_counter()
            answers = asyncio.run(judged(server.url, sources, range(count), slots))
            took = time.perf_counter() - began
            after = at_rest(server.process.pid, before)
            health = httpx.get(f"{server.url}/health").json()
            honest = httpx.post(f"{server.url}/v1/evaluate", json=body(HONEST), timeout=120).json()["verdict"]["status"]
            exit_code = server.terminate()
        left = sorted(names(Path(folder)) | (names(Path("/dev/shm")) - shared))
    growth = {str(pid): kib - before.private_kib.get(pid, 0) for pid, kib in after.private_kib.items()}
    return {
        "kernels": count,
        "answers": dict(answers),
        "as_wanted": answers == dict.fromkeys(wanted, count // len(sources)),
        "per_s": round(count / took, 2),
        "health_after": {name: health[name] for name in ("status", "total_memory_faults", "available_device_ids")},
        "honest_kernel_after": honest,
        "private_kib_gained": growth,
        "same_processes": before.private_kib.keys() == after.private_kib.keys(),
        "descriptors_same": before.descriptors == after.descriptors,
        "workers": [before.workers, after.workers],
        "left_behind": left,
        "exit_code": exit_code,
    }


def broken_promises(result: dict[str, Any]) -> list[str]:
    """Return the violations of the promised figures."""
    parts = result["parts"]
    slow = {name: one["p99_ms"] for name, one in parts.get("health", {}).items() if name != "measured"}
    found = [f"{name}: p99 {p99_ms} ms" for name, p99_ms in slow.items() if p99_ms >= MOST_P99_MS]
    for name in ("faults", "mixed"):
        found += [f"{name}: {what}" for what in not_held(parts[name])] if name in parts else []
    return found


def not_held(soak: dict[str, Any]) -> list[str]:
    promised = {
        "every answer has its status and category": soak["as_wanted"],
        "healthy after": soak["health_after"]["status"] == "healthy" and soak["honest_kernel_after"] == "correct",
        "memory is flat, but for what is kept": max(soak["private_kib_gained"].values())
        <= MOST_GROWTH_KIB + KEPT_KIB * soak["kernels"],
        "the same processes": soak["same_processes"] and soak["workers"][0] == soak["workers"][1],
        "the same descriptors": soak["descriptors_same"],
        "nothing left behind": not soak["left_behind"] and soak["exit_code"] == 0,
    }
    return [what for what, held in promised.items() if not held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--slots", type=int, default=64, help="evaluations that run beside /health (default 64)")
    parser.add_argument("--probes", type=int, default=500, help="requests of /health per figure (default 500)")
    parser.add_argument("--faults", type=int, default=1000, help="kernels that fault (default 1000)")
    parser.add_argument("--mixed", type=int, default=3000, help="kernels of all kinds (default 3000)")
    parser.add_argument("--at-once", type=int, default=2, help="slots that judge them (default 2)")
    parts = ("health", "faults", "mixed")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="run only these")
    parser.add_argument("--out", type=Path, help="default: results/server_DEVICE.json; its other parts are kept")
    arguments = parser.parse_args()
    out: Path = arguments.out or HERE / "results" / f"server_{arguments.device}.json"
    result = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"parts": {}}
    makers = {
        "health": lambda: health(arguments),
        "faults": lambda: soak(FAULTS, arguments.faults, arguments.at_once, arguments.device),
        "mixed": lambda: soak(MIXED, arguments.mixed, arguments.at_once, arguments.device),
    }
    for name in arguments.parts:
        machine = describe(["torch", "triton", "fastapi", "uvicorn"])
        part = makers[name]()
        result["parts"][name] = {**part, "measured": {**machine, "load_1min_at_end": os.getloadavg()[0]}}
        result["promises_not_kept"] = broken_promises(result)
        write_result(out, result)
        print(f"{name}: {part}", flush=True)
    print(f"written to {out}; not kept: {result['promises_not_kept'] or 'none'}")
    sys.exit(1 if result["promises_not_kept"] else 0)


if __name__ == "__main__":
    main()
