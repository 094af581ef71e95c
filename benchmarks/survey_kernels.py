"""How many of other projects' Triton files the evaluator takes its kernels from, and compiles.

    python benchmarks/survey_kernels.py --out survey.json liger=PATH fla=PATH ...

Each argument is a project's name and a folder of its sources, whose host code is read and never run. A file counts if
it defines kernels that use no module of their project. For each kernel that no other calls, launches are guessed until
Triton alone, on the file's own text, takes one; the evaluator must then compile that launch from what it extracted.
One of four things becomes of a kernel:

- `compiled`: both compile a launch;
- `removed`: Triton alone says of every guess that compiles no further that it has no such operation any more;
- `no_launch`: Triton alone refuses every guess, which says nothing about the evaluator;
- `fault`: Triton alone compiles a launch that the evaluator refuses, or whose kernel it does not extract.
"""

import argparse
import ast
import builtins
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from _machine import describe, skip, write_result

ARCH: Final = 90
ABSENT: Final = re.compile(r"does not exist in this version of Triton|its import fails|\(triton\.[\w.]+\)")
"""How a refusal says that the installed Triton has no such member or module."""
REMOVED: Final = re.compile(r"ha(ve|s) been removed")
MOST_GUESSES: Final = 2000
SECONDS_BEYOND: Final = 40
"""For what no signal interrupts: a pass of the compiler, and what stands around the guesses."""


@dataclass
class FileReport:
    """What became of one file.

    Attributes:
        path: below the project's folder.
        outcome: `extracted`, `refused`, or why it is not counted.
        launched: what became of each kernel that no other calls.
        said: what was said of those that did not compile, and of those that were refused.
    """

    path: str
    outcome: str
    launched: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("projects", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, default=Path("survey_kernels.json"), help="projects in it are kept")
    parser.add_argument("--details", type=Path, help="what was said of each kernel, with sources' own words")
    parser.add_argument("--only", default="", help="files whose path holds this")
    parser.add_argument("--seconds", type=int, default=20, help="what the guesses for one kernel may take")
    arguments = parser.parse_args()
    if not arguments.projects:
        skip("name projects and the folders of their sources")
    _warm_up()
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    found = describe(["triton", "torch"]) | {"arch": f"sm_{ARCH}", "projects": known.get("projects", {})}
    for project in arguments.projects:
        name, _, folder = project.partition("=")
        paths = [path for path in kernel_files(Path(folder)) if arguments.only in str(path)]
        reports = []
        for path in paths:
            reports.append(apart(path, Path(folder), arguments.seconds))
            if arguments.details is not None:
                write_result(arguments.details, {"files": [asdict(report) for report in reports]})
        found["projects"][name] = summary(reports)
        print(name, {key: value for key, value in found["projects"][name].items() if key != "not_compiled"}, flush=True)
        write_result(arguments.out, found)
    return 0


def kernel_files(folder: Path) -> Iterator[Path]:
    """Yield the files that seem to define kernels."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*@(triton\.)?jit\b|triton\.jit\(", text, re.MULTILINE):
            yield path


def summary(reports: list[FileReport]) -> dict[str, Any]:
    """Return the counts of a project, and which kernels did not compile."""
    for report in reports:
        report.outcome = corrected(report)
    counts = Counter(report.outcome for report in reports)
    alone = [report for report in reports if report.outcome in ("extracted", "refused")]
    became = Counter(what for report in alone for what in report.launched.values())
    whole = [report for report in alone if report.outcome == "extracted" and not failed(report)]
    faulty = [report for report in alone if report.outcome == "refused" or "fault" in report.launched.values()]
    return {
        "self_contained": len(alone),
        "extracted": counts["extracted"],
        "extracted_and_compiled": len(whole),
        "share": round(len(whole) / len(alone), 4) if alone else None,
        "without_launch": len(alone) - len(whole) - len(faulty),
        "at_fault": len(faulty),
        "nothing_to_launch": sum(not report.launched for report in alone),
        "not_counted": {name: count for name, count in counts.items() if name not in ("extracted", "refused")},
        "kernels": {name: became[name] for name in ("compiled", "removed", "no_launch", "fault")},
        "not_compiled": {report.path: failed(report) for report in alone if failed(report)},
    }


def corrected(report: FileReport) -> str:
    """Return what became of a file, by what Triton alone says of its kernels."""
    became = set(failed(report).values())
    if report.outcome in ("absent_member", "undefined_name") and "fault" in became:
        return "refused"
    if report.outcome in ("extracted", "refused") and became == {"removed"}:
        return "removed_operation"
    return report.outcome


def failed(report: FileReport) -> dict[str, str]:
    """Return the kernels of a file that did not compile, and what became of them."""
    return {name: what for name, what in report.launched.items() if what != "compiled"}


def _warm_up() -> None:
    """Import what each file's process needs, so that it is there when that is forked."""
    import _plain_triton  # noqa: F401

    from warpsmith.evaluator import compiling, extract  # noqa: F401


def apart(path: Path, folder: Path, seconds: int) -> FileReport:
    """Survey a file in a process of its own, which a compiler may crash or keep busy."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    report = FileReport(str(path.relative_to(folder)), "crashed")
    process = context.Process(target=survey, args=(path, folder, seconds, sending))
    process.start()
    sending.close()
    with suppress(EOFError):
        while receiving.poll(seconds + SECONDS_BEYOND):
            report = receiving.recv()
    for name, what in report.launched.items():
        if what == "tried":
            report.launched[name] = "no_launch"
            report.said[name] = "the compiler crashed, or did not end"
    process.kill()
    process.join()
    return report


def survey(path: Path, folder: Path, seconds: int, sending: Connection) -> None:
    """Extract and compile the kernels of one file, and send what is known after each."""
    from warpsmith.evaluator.extract import extract_usable

    report = FileReport(str(path.relative_to(folder)), "extracted")
    _hush()
    source = path.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(source)
        if needs_project(tree, {part.name for part in folder.iterdir()}):
            report.outcome = "needs_project"
            sending.send(report)
            return
        extracted = extract_usable(source)
    except (SyntaxError, ValueError) as error:
        report.outcome, report.said = "no_python", {"": str(error)}
        sending.send(report)
        return
    report.said = {name: str(error) for name, error in extracted.refused.items()}
    report.outcome = outcome(
        tree, extracted, sorted(set(report.said.values())), {part.name for part in folder.iterdir()}
    )
    sending.send(report)
    if report.outcome in ("extracted", "refused", "absent_member", "undefined_name"):
        for _ in compile_all(path, tree, extracted, report, seconds):
            sending.send(report)


def _hush() -> None:
    """Keep what the compiler prints of the code that it refuses from the terminal."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def outcome(tree: ast.Module, extracted: Any, reasons: list[str], tops: set[str]) -> str:
    """Return what became of a file: what this Triton could compile and is refused all the same counts as refused."""
    if not reasons:
        return "extracted" if extracted.kernels else "no_kernel"
    if all(ABSENT.search(reason) for reason in reasons):
        return "absent_member"
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= set(dir(builtins))
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


def entries(nodes: dict[str, ast.FunctionDef]) -> list[str]:
    """Return the kernels that host code may launch: those that no other names, and that return nothing."""
    named = {name for node in nodes.values() for name in _names(node) & set(nodes) - {node.name}}
    return [
        name
        for name, node in nodes.items()
        if name not in named and not any(isinstance(part, ast.Return) and part.value for part in ast.walk(node))
    ]


def compile_all(path: Path, tree: ast.Module, extracted: Any, report: FileReport, seconds: int) -> Iterator[None]:
    """Compile each kernel that host code may launch; yield before and after each."""
    from _host_code import HostCode
    from _launch_guesses import SMALL, Guesses, Kernels
    from _plain_triton import load

    from warpsmith.evaluator import compiling

    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    nodes = {node.name: node for node in _kernels(tree)} | {name: functions[name] for name in extracted.kernels}
    kernels, host = Kernels(nodes), HostCode(tree, set(nodes))
    with tempfile.TemporaryDirectory() as folder:
        ours = compiling.load_kernels(extracted, Path(folder))
        plain = load(path.read_text(encoding="utf-8", errors="replace"), str(path), nodes)
        for name in entries(nodes):
            report.launched[name] = "tried"
            yield
            became, said = in_time(seconds, ours, plain, name, Guesses(name, kernels, host))
            if became == "no_launch":
                became, said = in_time(seconds, ours, plain, name, Guesses(name, kernels, host, SMALL))
            report.launched[name] = became
            if said:
                report.said[name] = said[:600] + (f" | {report.said[name]}" if name in report.said else "")
            yield


def in_time(seconds: int, ours: dict[str, Any], plain: dict[str, Any], name: str, guesses: Any) -> tuple[str, str]:
    """Return what becomes of a kernel within its time, and what was said of it."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(seconds)
    heard: Counter[str] = Counter()
    try:
        return tried(ours, plain, name, guesses, heard)
    except TimeoutError:
        became, said = unlaunched(heard)
        return became, said or f"no guess within {seconds} s"
    finally:
        signal.alarm(0)


def _stop(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _most(heard: Counter[str]) -> str:
    return " || ".join(f"{count}x {said}" for said, count in heard.most_common(3))


def tried(ours: dict[str, Any], plain: dict[str, Any], name: str, guesses: Any, heard: Counter[str]) -> tuple[str, str]:
    """Try guesses until Triton takes one, and see what the evaluator makes of it."""
    from _plain_triton import fails, refuses

    if name not in plain:
        return "no_launch", "Triton alone makes no kernel of it"
    known: set[str] = set()
    for launch in guesses.launches(MOST_GUESSES):
        if (text := repr(launch)) in known:
            continue
        known.add(text)
        said = refuses(plain, name, launch)
        if said:
            _give_up(said)
        else:
            said = compiled(ours, name, launch)
            if not said:
                return "compiled", ""
            if not fails(plain, name, launch):
                return "fault", said
        guesses.note(said)
        heard[said[-300:]] += 1
    return unlaunched(heard)


def unlaunched(heard: Counter[str]) -> tuple[str, str]:
    """Return what became of a kernel for which no launch was found, and what was said most."""
    return "removed" if any(REMOVED.search(said) for said in heard) else "no_launch", _most(heard)


def _give_up(said: str) -> None:
    """Go on where a front end was interrupted: its own handlers take any exception for one about the kernel."""
    if "TimeoutError" in said:
        raise TimeoutError


def compiled(ours: dict[str, Any], name: str, launch: Any) -> str:
    """Return what the evaluator says against a launch; an empty string where it compiles."""
    from warpsmith.evaluator import compiling

    if name not in ours:
        return "it is not extracted"
    try:
        compiling.compile_launch(ours, {"kernel": name, "arguments": launch.arguments, "options": launch.options}, ARCH)
    except compiling.KernelCompilationError as error:
        _give_up(str(error))
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
