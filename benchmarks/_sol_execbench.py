"""A candidate judged by SOL-ExecBench's own evaluation driver: a problem becomes one of its definitions.

Its driver runs a function `run` of the reference and of the solution on inputs of a function of the reference's. So
each module gets a `run` that constructs the model once, with one seed on both sides, and calls it.
"""

import importlib
import json
import os
import runpy
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Final

SEED: Final = 42
ITERATIONS: Final = 50
"""Timed calls, its default."""
DRIVER: Final = "src/sol_execbench/driver/templates/eval_driver.py"
OF_REFERENCE: Final = """

_reference_model = None


def run({names}):
    global _reference_model
    if _reference_model is None:
        from warpsmith_model import constructed
        _reference_model = constructed(Model, get_init_inputs())
    import torch
    with torch.no_grad():
        return _reference_model({passed})


def warpsmith_inputs(axes_and_scalars, device):
    given = get_inputs()
    values = given.values() if isinstance(given, dict) else given
    return dict(zip({listed}, values))
"""
OF_SOLUTION: Final = """

_candidate_model = None


def run({names}):
    global _candidate_model
    if _candidate_model is None:
        from warpsmith_model import constructed
        from warpsmith_problem import get_init_inputs as _problem_init_inputs
        _candidate_model = constructed(ModelNew, _problem_init_inputs())
    import torch
    with torch.no_grad():
        return _candidate_model({passed})
"""
MODEL: Final = f'''\
import torch


def constructed(model, given):
    """Construct a module with the seed of both sides, and leave the random state as it was."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed({SEED})
        made = model(**given) if isinstance(given, dict) else model(*given)
    return made.cuda() if torch.cuda.is_available() else made
'''


def judge(checkout: Path, problem: str, candidate: str) -> dict[str, Any]:
    """SOL-ExecBench's verdict on one candidate in Triton: its ten rounds, its checks against cheating, and its time."""
    sys.path.insert(0, str(checkout / "src"))
    _provide_cupti()
    folder = Path(tempfile.mkdtemp())
    sys.path.insert(0, str(folder))
    (folder / "warpsmith_model.py").write_text(MODEL, encoding="utf-8")
    (folder / "warpsmith_problem.py").write_text(problem, encoding="utf-8")
    _stage(folder, problem, candidate)
    shutil.copy(checkout / DRIVER, folder / "eval_driver.py")
    printed = _driven(folder)
    if not printed:
        return {"compiled": False, "correct": False, "runtime_ms": None, "flagged": False, "note": "no verdict"}
    evaluation = json.loads(printed)["evaluation"]
    performance = evaluation.get("performance") or {}
    return {
        "compiled": True,
        "correct": evaluation["status"] == "PASSED",
        "runtime_ms": performance.get("latency_ms"),
        "flagged": False,
        "note": f"{evaluation['status']}: {evaluation.get('log') or ''}"[:200],
    }


def _driven(folder: Path) -> str:
    """Run the driver in this process, as its own command does; return the last verdict that it prints."""
    with tempfile.TemporaryFile() as said:
        kept = os.dup(1)
        os.dup2(said.fileno(), 1)
        try:
            runpy.run_path(str(folder / "eval_driver.py"), run_name="__main__")
        except SystemExit:
            pass
        finally:
            os.dup2(kept, 1)
        said.seek(0)
        lines = [line for line in said.read().decode(errors="replace").splitlines() if line.startswith("{")]
    return lines[-1] if lines else ""


def _stage(folder: Path, problem: str, candidate: str) -> None:
    """Write what the driver reads: definition, workload, solution and configuration."""
    inputs, outputs, by_name = _forms(problem)
    passed = ", ".join(f"{name}={name}" if by_name else name for name in inputs)
    names = {"names": ", ".join(inputs), "passed": passed, "listed": list(inputs)}
    axes = {f"axis_{size}": {"type": "const", "value": size} for size in _sizes(inputs, outputs)}
    definition = {
        "name": "problem",
        "axes": axes,
        "custom_inputs_entrypoint": "warpsmith_inputs",
        "inputs": {name: _spec(form) for name, form in inputs.items()},
        "outputs": {name: _spec(form) for name, form in outputs.items()},
        "reference": problem + OF_REFERENCE.format(**names),
    }
    source = candidate + OF_SOLUTION.format(**names)
    solution = {
        "name": "candidate",
        "definition": "problem",
        "author": "corpus",
        "spec": {
            "languages": ["triton"],
            "target_hardware": ["LOCAL"],
            "entry_point": "candidate.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": "candidate.py", "content": source}],
    }
    workload = {"axes": {}, "inputs": {name: {"type": "custom"} for name in inputs}, "uuid": "one"}
    config = {"iterations": ITERATIONS, "benchmark_reference": False}
    (folder / "candidate.py").write_text(source, encoding="utf-8")
    for name, content in (("definition", definition), ("solution", solution), ("config", config)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "workload.jsonl").write_text(json.dumps(workload) + "\n", encoding="utf-8")


def _forms(problem: str) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Return shape and dtype of inputs and of outputs by name, and whether inputs are passed by name."""
    import torch
    from warpsmith_model import constructed  # type: ignore[import-not-found]

    space: dict[str, Any] = {"__name__": "problem"}
    exec(compile(problem, "<problem>", "exec"), space)
    given = space["get_inputs"]()
    named = given if isinstance(given, dict) else {f"in_{number}": value for number, value in enumerate(given)}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    moved = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in named.items()}
    with torch.no_grad():
        model = constructed(space["Model"], space["get_init_inputs"]())
        output = model(**moved) if isinstance(given, dict) else model(*moved.values())
    listed = [output] if isinstance(output, torch.Tensor) else output
    outputs = listed if isinstance(listed, dict) else {f"out_{number}": value for number, value in enumerate(listed)}
    inputs = {name: _form(value) for name, value in moved.items()}
    return inputs, {name: _form(value) for name, value in outputs.items()}, isinstance(given, dict)


def _form(value: Any) -> tuple[list[int] | None, str]:
    """Return shape and dtype; a number has no shape."""
    import torch

    if isinstance(value, torch.Tensor):
        return list(value.shape), str(value.dtype).removeprefix("torch.")
    return None, {bool: "bool", int: "int64"}.get(type(value), "float32")


def _sizes(*forms: dict[str, Any]) -> list[int]:
    return sorted({size for named in forms for shape, _ in named.values() for size in shape or ()})


def _spec(form: tuple[list[int] | None, str]) -> dict[str, Any]:
    shape, dtype = form
    return {"shape": None if shape is None else [f"axis_{size}" for size in shape], "dtype": dtype}


def _provide_cupti() -> None:
    """Time by events, which the driver's function can do too, where NVIDIA's profiling library does not work."""
    if _has_cupti():
        return
    package, module = types.ModuleType("cupti"), types.ModuleType("cupti.cupti")
    package.cupti = module  # type: ignore[attr-defined]
    sys.modules |= {"cupti": package, "cupti.cupti": module}
    timing: Any = importlib.import_module("sol_execbench.core.bench.timing")
    timing.time_runnable.__defaults__ = (*timing.time_runnable.__defaults__[:-1], "cuda_events")


def _has_cupti() -> bool:
    try:
        from cupti import cupti  # type: ignore[import-not-found]

        return bool(cupti.get_version() and cupti.get_timestamp())
    except Exception:  # noqa: BLE001  (the binding raises types of its own where it does not find its library)
        return False
