"""Run every (problem, solution) pair of a directory in Triton's interpreter and print the worst scaled error of each.

A program of its own because Triton reads TRITON_INTERPRET when it is imported. Prints one JSON object.
"""

import importlib.util
import json
import sys
from pathlib import Path


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def worst_error(folder):
    import torch

    torch.manual_seed(0)
    problem, answer = load(folder / "problem.py"), load(folder / "solution.py")
    reference, candidate = problem.Model(*problem.get_init_inputs()), answer.ModelNew(*problem.get_init_inputs())
    candidate.load_state_dict(reference.state_dict())
    inputs = problem.get_inputs()
    with torch.no_grad():
        expected = reference.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
        got = candidate(*inputs)
    if got.shape != expected.shape or got.dtype != torch.float32 or expected.std() < 1e-3:
        return float("inf")
    # NaN has to count as the worst error, and a comparison with NaN is false.
    error = ((got.double() - expected).abs() / (1.0 + expected.abs())).max().item()
    return error if error == error else float("inf")


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(json.dumps({folder.name: worst_error(folder) for folder in sorted(root.iterdir())}))
