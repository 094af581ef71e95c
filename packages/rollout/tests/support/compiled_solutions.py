"""Compile the kernel of every solution of a directory for sm_90 and print each failure, or null, as one JSON object."""

import importlib.util
import json
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def failure(folder):
    spec = importlib.util.spec_from_file_location(folder.name, folder / "solution.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = {name: "*fp32" if name.endswith("_ptr") else "i32" for name in module.kernel.arg_names}
    signature = {**kinds, "BLOCK": "constexpr"}
    block = 64 if "matmul" in folder.name else 512
    try:
        triton.compile(ASTSource(module.kernel, signature, {"BLOCK": block}), target=GPUTarget("cuda", 90, 32))
    except triton.CompilationError as error:
        return str(error)
    return None


if __name__ == "__main__":
    print(json.dumps({folder.name: failure(folder) for folder in sorted(Path(sys.argv[1]).iterdir())}))
