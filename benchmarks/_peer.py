"""Candidates judged by a peer's evaluator, in a separate process: verdicts are written as JSON to a descriptor.

python benchmarks/_peer.py kernelbench|kernelgym CHECKOUT PROBLEM.py CANDIDATE.py DESCRIPTOR [BACKEND]
python benchmarks/_peer.py serve CHECKOUT DESCRIPTOR     # KernelBench: a task a line on stdin, a verdict a line
python benchmarks/_peer.py build CANDIDATE.py            # what `load_inline` builds, so that it is there later
"""

import importlib.util
import json
import os
import sys
import time
import types
from pathlib import Path
from statistics import median
from typing import Any, Final

TRIALS = 5
TIMED = 100
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

    Args:
        checkout: a checkout of KernelBench.
        task: `problem` and `candidate` (sources), `backend`, and whether convolutions may use TF32 (`tf32`).
    """
    import torch

    evaluator = import_kernelbench(checkout)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = task["tf32"]
    timed: list[list[float]] = []
    statistics = evaluator.timing.get_timing_stats

    def keep(times: list[float], *args: Any, **keywords: Any) -> Any:
        timed.append(list(times))
        return statistics(times, *args, **keywords)

    started = time.perf_counter()
    evaluator.timing.get_timing_stats = keep
    try:
        found = evaluator.eval_kernel_against_ref(
            task["problem"],
            task["candidate"],
            num_correct_trials=TRIALS,
            num_perf_trials=TIMED,
            measure_performance=True,
            backend=task["backend"],
        )
    finally:
        evaluator.timing.get_timing_stats = statistics
    if found is None:
        return {"correct": False, "error": "no verdict: the build's lock was taken, or a file was missing"}
    # The candidate is timed first, and only if it is correct; then the reference.
    of_candidate, of_reference = timed[0] if found.runtime > 0 else [], timed[-1] if found.ref_runtime > 0 else []
    return {
        "compiled": bool(found.compiled),
        "correct": bool(found.correctness),
        "runtime_ms": found.runtime if found.runtime > 0 else None,
        "runtime_median_ms": median(of_candidate) if of_candidate else None,
        "reference_ms": found.ref_runtime if found.ref_runtime > 0 else None,
        "reference_median_ms": median(of_reference) if of_reference else None,
        "flagged": bool(found.metadata.get("excessive_speedup")),
        "notes": {str(name): str(note)[:LONGEST_NOTE] for name, note in found.metadata.items()},
        "seconds": round(time.perf_counter() - started, 3),
    }


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


PEERS = {"kernelbench": by_kernelbench, "kernelgym": by_kernelgym}


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
