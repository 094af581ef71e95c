"""How many of other projects' Triton files the evaluator can take its kernels from, and compile.

    python benchmarks/survey_kernels.py --out survey.json liger=PATH fla=PATH ...

Each argument is a project's name and a folder of its sources, which are read and never run. A file counts if it defines
kernels that use no module of their project. A launch is guessed for each kernel that no other calls; where Triton
refuses every guess, the kernel counts as `not_guessed`, since that says nothing about the extraction.
"""

import argparse
import ast
import itertools
import json
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

ARCH: Final = 90
POINTER_CALLS: Final = frozenset({"load", "store", "make_block_ptr", "make_tensor_descriptor"})
ABSENT: Final = re.compile(r"does not exist in this version of Triton|its import fails|\(triton\.[\w.]+\)")
"""How a refusal says that the installed Triton has no such member or module."""
FLAGS: Final = re.compile(
    r"(is|has|use|apply|with|causal|return|store|even|do|enable|allow|need)_?|.*(flag|causal)", re.IGNORECASE
)
BLOCKS: Final = (32, 64)
MOST_SECONDS: Final = 10
"""What all guesses for one kernel may take: a guess may unroll a loop that nobody would."""


@dataclass
class FileReport:
    """What became of one file: `extracted`, `refused`, `no_python`, or `needs_project` where it is not counted."""

    path: str
    outcome: str
    kernels: int = 0
    compiled: int = 0
    not_guessed: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("projects", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes; Triton itself prints to stdout")
    parser.add_argument("--no-compile", action="store_true", help="extract only")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    found = {}
    for project in arguments.projects:
        name, _, folder = project.partition("=")
        paths = list(kernel_files(Path(folder)))
        with ProcessPoolExecutor(arguments.processes) as pool:
            tasks = zip(paths, itertools.repeat(Path(folder)), itertools.repeat(not arguments.no_compile), strict=False)
            found[name] = summary(list(pool.map(survey, *zip(*tasks, strict=True))) if paths else [])
        print(name, {key: value for key, value in found[name].items() if key != "files"}, file=sys.stderr)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def kernel_files(folder: Path) -> Iterator[Path]:
    """Yield the files that seem to define kernels."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*@(triton\.)?jit\b|triton\.jit\(", text, re.MULTILINE):
            yield path


def summary(reports: list[FileReport]) -> dict[str, Any]:
    """Return the counts of a project and its files."""
    counts = Counter(report.outcome for report in reports)
    alone = counts["extracted"] + counts["refused"]
    return {
        "self_contained": alone,
        "extracted": counts["extracted"],
        "share": round(counts["extracted"] / alone, 4) if alone else None,
        "needs_project": counts["needs_project"],
        **{name: counts[name] for name in ("absent_member", "undefined_name", "no_python", "no_kernel")},
        "kernels": sum(report.kernels for report in reports),
        "compiled": sum(report.compiled for report in reports),
        "not_guessed": sum(len(report.not_guessed) for report in reports),
        "files": [asdict(report) for report in reports],
    }


def survey(path: Path, folder: Path, with_compiler: bool) -> FileReport:
    """Extract and compile the kernels of one file."""
    from warpsmith.evaluator.extract import extract_usable

    report = FileReport(str(path.relative_to(folder)), "extracted")
    source = path.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(source)
        if needs_project(tree, {part.name for part in folder.iterdir()}):
            report.outcome = "needs_project"
            return report
        extracted = extract_usable(source)
    except (SyntaxError, ValueError) as error:
        report.outcome, report.reasons = "no_python", [str(error)]
        return report
    report.kernels = len(extracted.kernels)
    report.reasons = sorted({str(error) for error in extracted.refused.values()})
    report.outcome = outcome(tree, extracted, report.reasons, {part.name for part in folder.iterdir()})
    if with_compiler:
        compile_all(extracted, report)
    return report


def outcome(tree: ast.Module, extracted: Any, reasons: list[str], tops: set[str]) -> str:
    """Return what became of a file: what this Triton could compile and is refused all the same counts as refused."""
    if not reasons:
        return "extracted" if extracted.kernels else "no_kernel"
    if all(ABSENT.search(reason) for reason in reasons):
        return "absent_member"
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    undefined = [re.search(r"uses the global (\w+), which cannot", reason) for reason in reasons]
    if all(found is not None and found[1] not in bound for found in undefined):
        return "undefined_name"
    decided = [node.test for node in tree.body if isinstance(node, ast.If)]
    asked = set().union(*(_names(test) for test in decided))
    if all(" in lines " in reason for reason in reasons) and asked & _foreign(tree, tops):
        return "needs_project"
    own = "|".join(map(re.escape, [".", *(f"{top}." for top in tops)]))
    return "needs_project" if all(re.search(rf"global \w+ \(({own})", reason) for reason in reasons) else "refused"


def needs_project(tree: ast.Module, tops: set[str]) -> bool:
    """Whether a kernel names what its file imports from its own project, or from a package that is not installed."""
    foreign = _foreign(tree, tops)
    return any(foreign & _names(kernel) for kernel in _kernels(tree)) or "*" in foreign


def _foreign(tree: ast.Module, tops: set[str]) -> set[str]:
    from warpsmith.evaluator.extract.library import module_exists

    foreign = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            top = (node.module or "").partition(".")[0]
            if node.level or top in tops or module_exists(top) is False:
                foreign |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if top in tops or module_exists(top) is False:
                    foreign.add(alias.asname or top)
    return foreign


def _kernels(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(item) for item in node.decorator_list):
            yield node


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def compile_all(extracted: Any, report: FileReport) -> None:
    """Compile each kernel that no other calls, for a launch that is guessed."""
    from warpsmith.evaluator import compiling

    with tempfile.TemporaryDirectory() as folder:
        kernels = compiling.load_kernels(extracted, Path(folder))
        definitions = {node.name: node for node in _kernels(ast.parse(extracted.source))}
        called = {name for node in definitions.values() for name in _names(node) & set(definitions) - {node.name}}
        for name in sorted(set(definitions) - called):
            error = compiles(kernels, definitions[name])
            if error is None:
                report.compiled += 1
            else:
                report.not_guessed.append(f"{name}: {error[:300]}")


def compiles(kernels: Any, node: ast.FunctionDef) -> str | None:
    """Return None where a guess compiles, else what Triton says of the last one."""
    said = f"no guess within {MOST_SECONDS} s"
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(MOST_SECONDS)
    try:
        return _first_guess(kernels, node)
    except TimeoutError:
        return said
    finally:
        signal.alarm(0)


def _stop(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _first_guess(kernels: Any, node: ast.FunctionDef) -> str | None:
    from warpsmith.evaluator import compiling

    said = ""
    for block, flags in itertools.product(BLOCKS, (True, False)):
        launch = {"kernel": node.name, "arguments": guessed(node, block, flags), "options": {}}
        try:
            compiling.compile_launch(kernels, launch, ARCH)
        except compiling.KernelCompilationError as error:
            said = str(error)
        else:
            return None
    return said


def guessed(node: ast.FunctionDef, block: int, flags: bool) -> dict[str, Any]:
    """Return arguments as a trace describes them: pointers to float32, integers, and constants by their names."""
    pointers = _pointers(node)
    defaults = dict(zip(reversed([item.arg for item in node.args.args]), reversed(node.args.defaults), strict=False))
    found: dict[str, Any] = {}
    for item in node.args.args:
        if item.arg in defaults:
            continue
        static = item.annotation is not None and "constexpr" in ast.unparse(item.annotation)
        if static:
            found[item.arg] = _constant(item.arg, block, flags)
        elif item.arg in pointers:
            integer = re.search(r"ind|idx|offset|seqlens|len|mask|label|target|ids", item.arg, re.IGNORECASE)
            found[item.arg] = ["tensor", "int64" if integer else "float32", True]
        else:
            real = re.search(r"eps|scale|alpha|beta|^p$|prob|lr|momentum|slope|smooth|weight|temp", item.arg)
            found[item.arg] = ["value", 0.5 if real else 48]
    return found


def _constant(name: str, block: int, flags: bool) -> list[Any]:
    if re.search(r"dtype|type", name, re.IGNORECASE):
        return ["dtype", "fp32"]
    if re.match(
        r"(is|has|use|apply|with|causal|return|store|even|do|enable|allow|need)_?|.*(flag|causal)", name, re.IGNORECASE
    ):
        return ["value", flags]
    if re.search(r"act|mode|precision|reduction", name, re.IGNORECASE):
        return ["value", ""]
    if re.search(r"group|stage|num_|^n_|stride", name, re.IGNORECASE):
        return ["value", 2]
    return ["value", block]


def _pointers(node: ast.FunctionDef) -> set[str]:
    """Return the arguments that a kernel loads from, stores to or passes on by the name of a pointer."""
    found = {item.arg for item in node.args.args if re.search(r"ptr|_base$", item.arg, re.IGNORECASE)}
    grown: dict[str, set[str]] = {}
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                grown.setdefault(ast.unparse(target), set()).update(_summands(statement.value))
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
            continue
        if call.func.attr in POINTER_CALLS or call.func.attr.startswith("atomic"):
            found |= _closure(_summands(call.args[0]), grown)
    return found


def _summands(node: ast.expr) -> set[str]:
    match node:
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub()):
            return _summands(left) | _summands(right)
        case ast.Name(id=name):
            return {name}
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            return _summands(value)
        case _:
            return set()


def _closure(names: set[str], grown: dict[str, set[str]]) -> set[str]:
    """Return the names of which a pointer is the sum; too many of them are integers, and fail as a guess."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(grown.get(name, ()))
    return found


if __name__ == "__main__":
    sys.exit(main())
