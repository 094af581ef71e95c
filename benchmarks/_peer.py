"""One candidate judged by a peer's evaluator, in a separate process: the verdict is written as JSON to a descriptor.

python benchmarks/_peer.py kernelbench|kernelgym CHECKOUT PROBLEM.py CANDIDATE.py DESCRIPTOR
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

TRIALS = 5
TIMED = 100


def by_kernelbench(checkout: Path, problem: str, candidate: str) -> dict[str, Any]:
    """KernelBench's `eval_kernel_against_ref`, with its own guard against excessive speedups."""
    sys.path.insert(0, str(checkout / "src"))
    from kernelbench.eval import eval_kernel_against_ref

    found = eval_kernel_against_ref(
        problem,
        candidate,
        num_correct_trials=TRIALS,
        num_perf_trials=TIMED,
        measure_performance=True,
        backend="triton",
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


def by_kernelgym(checkout: Path, problem: str, candidate: str) -> dict[str, Any]:
    """KernelGYM's toolkit, with its detection of decoy kernels."""
    sys.path.insert(0, str(checkout))
    from kernelgym.toolkit.kernelbench.toolkit import KernelBenchToolkit

    task = {
        "task_type": "evaluation",
        "task_id": "0",
        "reference_code": problem,
        "kernel_code": candidate,
        "entry_point": "Model",
        "backend": "triton",
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


def main(name: str, checkout: str, problem: str, candidate: str, descriptor: str) -> None:
    os.write(int(descriptor), b" ")  # it has started; JSON may start with a space
    sources = [Path(path).read_text(encoding="utf-8") for path in (problem, candidate)]
    found = PEERS[name](Path(checkout), *sources)
    os.write(int(descriptor), json.dumps(found).encode())
    # Processes left by a candidate must not delay the end.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
