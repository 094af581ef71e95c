"""Shortens what nvcc, g++, the assembler and the linker print to the lines that an author can act on."""

import re
from collections.abc import Iterator
from typing import Final

MOST_ERRORS: Final = 8
MOST_CHARACTERS: Final = 3500
_NVCC: Final = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
_HOST: Final = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$")
_UNDEFINED: Final = re.compile(r"undefined reference to [`']([^']+)'")
_PTXAS: Final = re.compile(r"^ptxas .*?(?:error|fatal)\s*: (?P<text>.*)$")
_MEMBER: Final = re.compile(
    r"(?:namespace|class) \"(?P<owner>(?:torch|at|c10|caffe2|pybind11)[\w:]*)\" has no member \"(?P<name>\w+)\""
    r"|['‘](?P<name2>\w+)['’] is not a member of ['‘](?P<owner2>(?:torch|at|c10|caffe2|pybind11)[\w:]*)['’]"
    r"|['‘](?:class |struct )?(?P<owner3>(?:torch|at|c10)::[\w:]*)['’] has no member named ['‘](?P<name3>\w+)['’]"
)
_HEADER: Final = re.compile(r"cannot open source file \"(?P<name>[^\"]+)\"|(?P<name2>\S+): No such file or directory")
_LIBRARIES: Final = ("cublas", "cudnn", "cufft", "cusparse", "cusolver", "curand", "cutlass", "cute/", "nccl", "nvrtc")
_INSTEAD: Final = (
    (
        re.compile("kernel launch from __device__ or __global__ functions"),
        "A kernel cannot launch another one: launch both from host code, one after the other, or make the inner one a "
        "__device__ function. Blocks that wait for each other need a cooperative launch.",
    ),
    (
        re.compile(r"cudaGraph|cudaStream(Begin|End)Capture"),
        "Launch the kernels themselves instead of a graph: what is timed is a graph of the whole call anyway.",
    ),
    (re.compile("cudaMallocManaged|cudaHostAlloc|cudaMallocHost"), "Allocate with torch::empty or cudaMalloc."),
    (re.compile("[tT]extureObject|[sS]urfaceObject"), "Read tensors through pointers, with __ldg where that helps."),
    (re.compile("cudaMemcpyFromSymbol"), "Let a kernel write the variable to a tensor."),
)
"""What no replay can repeat, as it stands in an error, and what to write instead."""
ALLOCATE: Final = (
    "Host code may allocate (torch::empty, zeros, full, empty_like), view, copy, check with TORCH_CHECK and launch "
    "kernels; compute in kernels."
)


def shortened(printed: str, own: frozenset[str]) -> str:
    """Return the useful lines of what compilers printed.

    Args:
        printed: by all of them.
        own: names under which the candidate's own sources appear.
    """
    undefined = list(dict.fromkeys(_UNDEFINED.findall(printed)))
    found = [*dict.fromkeys(_lines(printed.splitlines(), own)), *_unresolved(undefined)]
    left = len(found) - MOST_ERRORS
    lines = found[:MOST_ERRORS] + ([f"and {left} more errors"] if left > 0 else [])
    advice = list(dict.fromkeys(filter(None, map(_advice, found[:MOST_ERRORS]))))
    advice += [instead for feature, instead in _INSTEAD if any(map(feature.search, lines))]
    text = "\n".join(lines + advice)
    return (text or printed.strip()[-MOST_CHARACTERS:] or "the compiler failed and printed nothing")[:MOST_CHARACTERS]


def category_of(message: str) -> str:
    """Return the error category of a shortened message."""
    if any(feature.search(message) for feature, _ in _INSTEAD):
        return "unsupported_feature"
    return "shared_memory_exceeded" if "too much shared data" in message else "cuda_compilation_error"


def _lines(lines: list[str], own: frozenset[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        match = _NVCC.match(line) or _HOST.match(line)
        assembled = _PTXAS.match(line)
        if match:
            name = match["file"].rpartition("/")[2]
            if name not in own:
                # An error inside a header: where the candidate's source led there is in a later line.
                name = _origin(lines[number : number + 12], own) or f"{name}({match['line']})"
                yield f"{name}: error: {match['text']}"
            else:
                yield f"{name}({match['line']}): error: {match['text']}{_excerpt(lines[number + 1 : number + 3])}"
        elif assembled:
            yield f"ptxas: {assembled['text']}"


def _origin(lines: list[str], own: frozenset[str]) -> str:
    for line in lines:
        for name in own:
            found = re.search(rf"{re.escape(name)}[\"']?(?:\((\d+)\)|:(\d+)| line (\d+))", line)
            found = found or re.search(rf"at line (\d+) of \S*?{re.escape(name)}", line)
            if found:
                return f"{name}({next(filter(None, found.groups()))})"
    return ""


def _excerpt(lines: list[str]) -> str:
    """Return the source line that nvcc prints below an error."""
    line = lines[0].strip() if lines else ""
    return f"\n    {line[:160]}" if line and "error" not in line and not line.startswith(("^", "detected")) else ""


def _unresolved(symbols: list[str]) -> Iterator[str]:
    """Say what the linker did not find, by kind."""
    names = list(dict.fromkeys(re.sub(r"\(.*", "", symbol) for symbol in symbols))
    if "warpsmith_bind" in names:
        yield (
            "No functions are exported: name them in `functions` of load_inline, or write "
            "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(...); }."
        )
    runtime = [name for name in names if name.lstrip("_").startswith("cuda")]
    if runtime:
        yield (
            f"{_listed(runtime)} cannot be used by candidates. Available are launches, cooperative ones included, "
            "cudaMalloc and cudaFree, cudaMemcpyAsync, cudaMemsetAsync, cudaMemcpyToSymbol, streams, events, "
            "attributes and occupancy; no graphs, textures, managed memory or copies back to the host."
        )
    libraries = [name for name in names if name.startswith(_LIBRARIES)]
    if libraries:
        yield f"{_listed(libraries)} cannot be used: candidates bring their own kernels, not a library's."
    other = [name for name in names if name not in {"warpsmith_bind", *runtime, *libraries}]
    if other:
        yield f"{_listed(other)}: declared and used, and defined in none of the sources."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_ERRORS]) + (f" and {len(names) - MOST_ERRORS} more" * (len(names) > MOST_ERRORS))


def _advice(line: str) -> str:
    member = _MEMBER.search(line)
    if member:
        name = member["name"] or member["name2"] or member["name3"]
        owner = member["owner"] or member["owner2"] or member["owner3"]
        return f"{owner}::{name} is not among the functions of torch's C++ API that host code has here. {ALLOCATE}"
    header = _HEADER.search(line)
    if header:
        name = header["name"] or header["name2"]
        if name.startswith(_LIBRARIES):
            return f"Libraries such as {name} are not available: candidates bring their own kernels."
        return (
            f"{name} is not available. There are the CUDA toolkit's headers, CUB and Thrust, the C++ standard library, "
            "and torch/extension.h with what it brings."
        )
    return ""
