"""Solutions as candidates, and candidates as solutions.

A solution is a function over all inputs, which by default writes to outputs that its caller allocated; a candidate is a
module with `ModelNew`. Each becomes the other by a few generated lines after its own code.
"""

import ast
from collections.abc import Mapping
from typing import Any, Final

from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.traces.problems import FormatName
from warpsmith.evaluator.traces.schema import RUN, ConstAxis, Definition, Solution, Tensor
from warpsmith.evaluator.traces.shapes import with_names

ADAPTED: Final = ("triton", "python", "pytorch")
"""Languages of solutions whose code is Python that runs kernels itself."""
JUDGED: Final = (
    "solutions in triton, python and pytorch can be judged: Triton with --backend triton, CUDA C++ that the Python "
    "builds by load_inline with --backend cuda"
)
"""What can be judged, for the message about a solution that cannot."""
FILE: Final = "main.py"
LANGUAGES: Final = {"flashinfer": {"triton": "triton", "cuda_cpp": "python"},
                    "sol": {"triton": "triton", "cuda_cpp": "pytorch"}}  # fmt: skip
"""The formats' names of our kernel languages: CUDA C++ that Python builds is a Python solution there."""


class UnadaptedError(Exception):
    """A well-formed solution that no candidate can be made of; the message says why."""


def candidate_of(solution: Solution, definition: Definition, format: FormatName) -> str:
    """Return a solution as the source of a candidate.

    Outputs that the solution takes are allocated before each call: filled with zeros for SOL-ExecBench, as its own
    program does, uninitialized for FlashInfer-trace.

    Raises:
        UnadaptedError: it is in another language, of several Python files, or defines no such function; or the shape of
            an output does not follow from those of inputs.
    """
    spec = solution.spec
    if foreign := set(spec.all_languages) - set(ADAPTED):
        raise UnadaptedError(f"it is in {', '.join(sorted(foreign))}; {JUDGED}")
    files = [one.path for one in solution.sources if one.path.endswith(".py")]
    if files != [spec.entry_file]:
        raise UnadaptedError(f"it has the Python files {', '.join(files)}; {spec.entry_file} alone was expected")
    content = next(one.content for one in solution.sources if one.path == spec.entry_file)
    names = _defined(content)
    if names is not None and spec.entry_function not in names:
        raise UnadaptedError(f"{spec.entry_file} defines no {spec.entry_function}")
    if content.endswith(own := _entry(spec.entry_function, definition)):
        # It was written by `solution_of`, from the candidate that precedes.
        return content.removesuffix(own).rstrip() + "\n"
    if names is not None and "ModelNew" in names:
        raise UnadaptedError(f"{spec.entry_file} defines ModelNew, which the generated code defines")
    called = _written if spec.destination_passing_style else _returned
    body = "".join(f"        {line}\n" for line in called(spec.entry_function, definition, format))
    return (
        f"{content.rstrip()}\n\n\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n"
        f"    def forward(self, {', '.join(definition.inputs)}):\n{body}"
    )


def solution_of(
    candidate: str, definition: Definition, *, name: str, author: str, format: FormatName, language: str
) -> dict[str, Any]:
    """Return a candidate as a document of a solution, which returns its outputs.

    Args:
        candidate: the source of a module with `ModelNew`.
        definition: what it solves.
        name, author: the solution's.
        format: whose document it is.
        language: kernel language of the candidate, `triton` or `cuda_cpp`.
    """
    function = RUN if RUN not in (_defined(candidate) or ()) else "run_model_new"
    content = f"{candidate.rstrip()}{_entry(function, definition)}"
    known = LANGUAGES[format][language]
    languages: dict[str, Any] = {"language": known} if format == "flashinfer" else {"languages": [known]}
    spec = {
        **languages,
        "target_hardware": ["cuda" if format == "flashinfer" else "LOCAL"],
        "entry_point": f"{FILE}::{function}",
        "dependencies": ["torch", "triton"] if language == "triton" else ["torch"],
        "destination_passing_style": False,
    }
    document = {"name": name, "definition": definition.name, "author": author, "spec": spec}
    return document | {"sources": [{"path": FILE, "content": content}]}


def _entry(function: str, definition: Definition) -> str:
    """Return the code after a candidate that makes it a solution."""
    inputs = ", ".join(definition.inputs)
    return (
        f"\n\n\n_MODELS = []\n\n\ndef {function}({inputs}):\n    if not _MODELS:\n"
        f"        _MODELS.append(ModelNew())\n    return _MODELS[0]({inputs})\n"
    )


def _defined(source: str) -> set[str] | None:
    """Return the names that a module's top level defines; None if it does not parse."""
    try:
        body = parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=targets):
                names |= {one.id for one in targets if isinstance(one, ast.Name)}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {one.asname or one.name for one in aliases}
    return names


def _returned(function: str, definition: Definition, format: FormatName) -> list[str]:
    """Return the body of a forward whose function returns outputs: one, a list of them, or a dict by name."""
    names = list(definition.outputs)
    return [
        f"found = {function}({', '.join(definition.inputs)})",
        "if isinstance(found, dict):",
        f"    found = tuple(found[name] for name in {names!r})",
        "if isinstance(found, (tuple, list)):",
        f"    return {'found[0]' if len(names) == 1 else 'tuple(found)'}",
        "return found",
    ]


def _written(function: str, definition: Definition, format: FormatName) -> list[str]:
    """Return the body of a forward whose function writes to outputs that it is given last."""
    sizes = _sizes(definition)
    tensors = [name for name, tensor in definition.inputs.items() if tensor.shape is not None]
    if not tensors:
        raise UnadaptedError("no input is a tensor, so that nothing says where outputs are allocated")
    made = "zeros" if format == "sol" else "empty"
    lines = [
        f"{name} = torch.{made}({_shape(name, tensor, sizes)}, dtype=torch.{tensor.dtype}, device={tensors[0]}.device)"
        for name, tensor in definition.outputs.items()
    ]
    outputs = list(definition.outputs)
    called = f"{function}({', '.join([*definition.inputs, *outputs])})"
    return [*lines, called, f"return {outputs[0] if len(outputs) == 1 else ', '.join(outputs)}"]


def _shape(output: str, tensor: Tensor, sizes: Mapping[str, str]) -> str:
    sides = [sizes.get(axis, axis if axis.isdecimal() else "") for axis in tensor.shape or ()]
    if not all(sides):
        raise UnadaptedError(f"the shape of {output} does not follow from shapes of inputs")
    return f"({', '.join(sides)}{',' * (len(sides) == 1)})"


def _sizes(definition: Definition) -> dict[str, str]:
    """Return the source of each axis that follows from the shapes of inputs."""
    sizes: dict[str, str] = {}
    for name, tensor in definition.inputs.items():
        for place, axis in enumerate(tensor.shape or ()):
            sizes.setdefault(axis, f"{name}.shape[{place}]")
    for name, one in definition.axes.items():
        if isinstance(one, ConstAxis):
            sizes[name] = str(one.value)
    for name, text in definition.expressions().items():
        if name not in sizes:
            try:
                sizes[name] = f"({with_names(text, sizes)})"
            except KeyError:
                continue
    return sizes
