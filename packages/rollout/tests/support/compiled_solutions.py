"""Compile the kernels of every solution of a directory for sm_90 and print each failure, or null, as one JSON object.

A kernel is compiled with the numbers of its launch; a number that `forward` computes is taken to be 512.
"""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

COMPUTED = 512


def load(path):
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launches(text):
    """Return the numbers passed by keyword in each launch, by the kernel's name."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {
        call.func.value.id: {
            keyword.arg: keyword.value.value if isinstance(keyword.value, ast.Constant) else COMPUTED
            for keyword in call.keywords
        }
        for call in calls
        if isinstance(call.func, ast.Subscript)
    }


def kind(name, constants):
    if name in constants:
        return "constexpr"
    return {"index_ptr": "*i64"}.get(name, "*fp32") if name.endswith("_ptr") else "i32"


def failure(folder):
    path = folder / "solution.py"
    module, found = load(path), launches(path.read_text())
    kernels = {name: one for name, one in vars(module).items() if isinstance(one, JITFunction)}
    if kernels.keys() != found.keys():
        return f"kernels {sorted(kernels)}, launches of {sorted(found)}"
    for name, kernel in kernels.items():
        numbers = found[name]
        options = {"num_warps": numbers.pop("num_warps", 4)}
        signature = {argument: kind(argument, numbers) for argument in kernel.arg_names}
        try:
            triton.compile(ASTSource(kernel, signature, numbers), target=GPUTarget("cuda", 90, 32), options=options)
        except triton.CompilationError as error:
            return str(error)
    return None


if __name__ == "__main__":
    print(json.dumps({folder.name: failure(folder) for folder in sorted(Path(sys.argv[1]).iterdir())}))
