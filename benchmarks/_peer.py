"""Candidates judged by a peer's evaluator, in a separate process: verdicts are written as JSON to a descriptor.

python benchmarks/_peer.py kernelbench|kernelgym|sol_execbench CHECKOUT PROBLEM.py CANDIDATE.py DESCRIPTOR [BACKEND]
python benchmarks/_peer.py serve CHECKOUT DESCRIPTOR     # KernelBench: a task a line on stdin, a verdict a line
python benchmarks/_peer.py build CANDIDATE.py            # what `load_inline` builds, so that it is there later
"""

import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

TRIALS = 5
TIMED = 100
GATED = 20
GATE_CYCLES: Final = 4_000_000
"""Two milliseconds of an H100."""
LONGEST_NOTE: Final = 600
CLIENTS: Final = {"dotenv": "load_dotenv", "openai": "OpenAI", "litellm": "completion", "requests": "", "tqdm": "tqdm"}
"""What KernelBench imports beside its evaluator, for models and downloads, and the name that it takes from each."""


def import_kernelbench(checkout: Path) -> Any:
    """Import KernelBench's evaluator; stand-ins take the place of clients that are not installed."""
    for name, attribute in CLIENTS.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
            if attribute:
                setattr(sys.modules[name], attribute, lambda *_args, **_keywords: None)
    if str(checkout / "src") not in sys.path:
        sys.path.insert(0, str(checkout / "src"))
    from kernelbench import eval as evaluator  # type: ignore[import-not-found]

    return evaluator


def by_kernelbench(checkout: Path, problem: str, candidate: str, backend: str = "triton") -> dict[str, Any]:
    """KernelBench's `eval_kernel_against_ref`, with its own guard against excessive speedups."""
    found = import_kernelbench(checkout).eval_kernel_against_ref(
        problem,
        candidate,
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED,
        measure_performance=True,
        backend=backend,
    )
    if found is None:
        return {"compiled": False, "correct": False, "runtime_ms": None, "flagged": False}
    flagged = bool(found.metadata.get("excessive_speedup"))
    return {
        "compiled": bool(found.compiled),
        "correct": bool(found.correctness),
        "runtime_ms": found.runtime if found.runtime and found.runtime > 0 else None,
        "flagged": flagged,
    }


def in_full(checkout: Path, task: dict[str, Any]) -> dict[str, Any]:
    """The same with its reasons, its times of the reference and the medians of what it timed.

    Each model is timed once more by the same function, behind a gate: after its flush of the cache the device spins
    for some milliseconds, so that host code is done before the device starts, and the device has rested. The two
    medians tell what host code and a hot device do to a time.

    Args:
        checkout: a checkout of KernelBench.
        task: `problem` and `candidate` (sources), `backend`, and whether convolutions may use TF32 (`tf32`).
    """
    import torch

    evaluator = import_kernelbench(checkout)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = task["tf32"]
    started = time.perf_counter()
    with timed_twice(evaluator.timing) as (timed, gated):
        found = evaluator.eval_kernel_against_ref(
            task["problem"],
            task["candidate"],
            num_correct_trials=TRIALS,
            num_perf_trials=TIMED,
            measure_performance=True,
            backend=task["backend"],
        )
    if found is None:
        return {"correct": False, "error": "no verdict: the build's lock was taken, or a file was missing"}
    # The candidate is timed first, and only if it is correct; then the reference.
    return {
        "compiled": bool(found.compiled),
        "correct": bool(found.correctness),
        **times_of("runtime", found.runtime, timed[:1], gated[:1]),
        **times_of("reference", found.ref_runtime, timed[-1:], gated[-1:]),
        "flagged": bool(found.metadata.get("excessive_speedup")),
        "notes": {str(name): str(note)[:LONGEST_NOTE] for name, note in found.metadata.items()},
        "seconds": round(time.perf_counter() - started, 3),
    }


@contextmanager
def timed_twice(timing: Any) -> Iterator[tuple[list[list[float]], list[list[float]]]]:
    """Have KernelBench time each model once more behind a gate, after its own timing of it.

    Args:
        timing: its module.

    Yields:
        Its times in milliseconds, a list for each model, and those behind the gate.
    """
    import torch

    timed: list[list[float]] = []
    gated: list[list[float]] = []
    choose, clear = timing.get_timing_function, timing.clear_l2_cache

    def behind_gate(*args: Any, **keywords: Any) -> None:
        clear(*args, **keywords)
        torch.cuda._sleep(GATE_CYCLES)

    def choose_twice(*args: Any, **keywords: Any) -> Any:
        function = choose(*args, **keywords)

        def run(model: Any, inputs: Any, **settings: Any) -> list[float]:
            timed.append(function(model, inputs, **settings))
            timing.clear_l2_cache = behind_gate
            try:
                gated.append(function(model, inputs, **{**settings, "num_trials": GATED}))
            finally:
                timing.clear_l2_cache = clear
            return timed[-1]

        return run

    timing.get_timing_function = choose_twice
    try:
        yield timed, gated
    finally:
        timing.get_timing_function = choose


def times_of(name: str, mean: float, timed: list[list[float]], gated: list[list[float]]) -> dict[str, float | None]:
    """Name the times of one model in milliseconds; None where it was not timed, which the peer calls -1."""
    found = [mean, *(statistic(each) for statistic in (median, min) for each in timed), *map(median, gated)]
    names = [f"{name}_{what}" for what in ("ms", "median_ms", "least_ms", "gated_ms")]
    return dict(zip(names, found if mean > 0 else [None] * len(names), strict=True))


def by_kernelgym(checkout: Path, problem: str, candidate: str, backend: str = "triton") -> dict[str, Any]:
    """KernelGYM's toolkit, with its detection of decoy kernels."""
    sys.path.insert(0, str(checkout))
    from kernelgym.toolkit.kernelbench.toolkit import KernelBenchToolkit

    task = {
        "task_type": "evaluation",
        "task_id": "0",
        "reference_code": problem,
        "kernel_code": candidate,
        "entry_point": "Model",
        "backend": backend,
        "device": "cuda:0",
        "num_correct_trials": TRIALS,
        "num_perf_trials": TIMED,
        "enable_triton_detection": True,
    }
    found = KernelBenchToolkit().evaluate(task)
    runtime = found.get("kernel_runtime")
    return {
        "compiled": bool(found.get("compiled")),
        "correct": bool(found.get("correctness")),
        "runtime_ms": runtime if runtime and runtime > 0 else None,
        "flagged": bool(found.get("decoy_kernel")),
    }


def by_sol_execbench(checkout: Path, problem: str, candidate: str, backend: str = "triton") -> dict[str, Any]:
    """SOL-ExecBench's driver, which refuses `load_inline`: kernels in CUDA C++ need its own form."""
    import _sol_execbench

    if backend != "triton":
        raise SystemExit("SOL-ExecBench takes no module that builds CUDA C++ by load_inline")
    return _sol_execbench.judge(checkout, problem, candidate)


PEERS = {"kernelbench": by_kernelbench, "kernelgym": by_kernelgym, "sol_execbench": by_sol_execbench}


def serve(checkout: str, descriptor: str) -> None:
    """Judge the tasks of stdin; an exception is a verdict too, since the peer's caller would see it."""
    for line in sys.stdin:
        try:
            found = in_full(Path(checkout), json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever the peer or the candidate raises is the answer
            found = {"correct": False, "error": f"{type(error).__name__}: {error}"[:LONGEST_NOTE]}
        os.write(int(descriptor), (json.dumps(found) + "\n").encode())


def build(candidate: str) -> None:
    """Run a candidate's module, which builds its extensions where TORCH_EXTENSIONS_DIR says."""
    exec(compile(Path(candidate).read_text(encoding="utf-8"), "<string>", "exec"), {})


def judge(name: str, *arguments: str) -> None:
    """Judge one candidate."""
    checkout, problem, candidate, descriptor, *backend = arguments
    os.write(int(descriptor), b" ")  # it has started; JSON may start with a space
    sources = [Path(path).read_text(encoding="utf-8") for path in (problem, candidate)]
    found = PEERS[name](Path(checkout), *sources, *backend)
    os.write(int(descriptor), json.dumps(found).encode())
    # Processes left by a candidate must not delay the end.
    os._exit(0)


def main(what: str, *arguments: str) -> None:
    if what == "serve":
        serve(*arguments)
    elif what == "build":
        build(*arguments)
    else:
        judge(what, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
