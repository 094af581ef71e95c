"""Surveys one file of another project: the outcome of each of its kernels, determined in a separate process."""

import ast
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from _host_code import HostCode
from _launch_guesses import Guesses, Kernels
from _plain_triton import fails, globals_of, load, refuses
from _refusals import Flows, Refusal

from warpsmith.evaluator.languages.triton import compilation
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted, extract_usable
from warpsmith.evaluator.languages.triton.extract.library import module_exists
from warpsmith.evaluator.languages.triton.kernel_set import KernelCompilationError

ARCH: Final = 90
ABSENT: Final = re.compile(
    r"does not exist in (this version of )?Triton|its import fails|\(triton\.[\w.]+\)|which is bound nowhere"
)
"""How an error says that the installed Triton has no such member or module."""
TRIED: Final = "tried"
NOT_EXTRACTED: Final = "not extracted"
MOST_GUESSES: Final = 2000
GUESSES_BEYOND: Final = 60
"""Attempts after an error that affects all launches: another may still get past it."""
MOST_CRASHES: Final = 4
COMPILE_SECONDS: Final = 40
"""Seconds for compiling a launch that the front end accepts, however late it was found."""
SECONDS_BEYOND: Final = 60
"""Seconds for what signals cannot interrupt: a compiler pass, and work around the guesses."""


@dataclass
class FileReport:
    """The outcome of one file.

    Attributes:
        path: relative to the project's folder.
        outcome: `extracted`, `refused`, or why it is not counted.
        launched: outcome of each kernel that no other calls.
        why: a one-line reason for each that did not compile.
        said: the full messages for those, and for kernels that were rejected.
    """

    path: str
    outcome: str
    launched: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def apart(path: Path, folder: Path, seconds: int) -> FileReport:
    """Survey a file in a separate process; if a launch crashes the compiler, repeat without it."""
    report, crashed = FileReport(str(path.relative_to(folder)), "crashed"), Counter[str]()
    lethal: set[str] = set()
    while True:
        report, last = _forked(path, folder, seconds, report, lethal)
        unfinished = [name for name, what in report.launched.items() if what == TRIED]
        for name in unfinished:
            crashed[name] += 1
            if crashed[name] == MOST_CRASHES or last in lethal:
                report.launched[name], report.why[name] = "no_launch", "the compiler crashed, or did not end"
        if not unfinished:
            return report
        lethal.add(last)


def _forked(path: Path, folder: Path, seconds: int, report: FileReport, lethal: set[str]) -> tuple[FileReport, str]:
    """Return the last report of a process, and the last launch that it compiled."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    last, survey = "", _Survey(path, folder, seconds, report, _Link(sending, lethal))
    process = context.Process(target=survey.run)
    process.start()
    sending.close()
    with suppress(EOFError):
        while receiving.poll(seconds + SECONDS_BEYOND):
            match receiving.recv():
                case str(launch):
                    last = launch
                case FileReport() as found:
                    report = found
    process.kill()
    process.join()
    return report, last


@dataclass(frozen=True)
class _Link:
    """Connects a survey's process to its parent: `lethal` launches crashed an earlier process."""

    sending: Connection
    lethal: set[str]


class _Survey:
    """The survey of one file.

    Args:
        report: what is known from a process that crashed.
    """

    def __init__(self, path: Path, folder: Path, seconds: int, report: FileReport, link: "_Link") -> None:
        self.report = report
        self._path = path
        self._seconds = seconds
        self._link = link
        self._tops = {part.name for part in folder.iterdir()}

    def run(self) -> None:
        """Extract and compile the kernels of the file, and send the report after each."""
        _hush()
        source = self._path.read_text(encoding="utf-8", errors="replace")
        try:
            tree = ast.parse(source)
            if needs_project(tree, self._tops):
                self._end("needs_project")
                return
            extracted = extract_usable(source)
        except (SyntaxError, ValueError) as error:
            self.report.said[""] = str(error)
            self._end("no_python")
            return
        self._end(outcome(tree, extracted, self._tops))
        if self.report.outcome in ("extracted", "refused"):
            self._compile_all(source, tree, extracted)

    def _end(self, outcome: str) -> None:
        self.report.outcome = outcome
        self._link.sending.send(self.report)

    def _compile_all(self, source: str, tree: ast.Module, extracted: Extracted) -> None:
        """Compile each kernel that host code may launch."""
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        nodes = {name: functions[name] for name in extracted.kernels} | {node.name: node for node in kernels_of(tree)}
        kernels, host = Kernels(nodes), HostCode(tree, set(nodes))
        first = entries(nodes)
        with tempfile.TemporaryDirectory() as folder:
            ours = compilation.load_kernels(extracted, Path(folder))
            plain = load(source, str(self._path), nodes)
            for name in first:
                if self.report.launched.get(name, TRIED) == TRIED:
                    self._note(name, TRIED)
                    trial = Trial(name, (ours, plain), kernels.flows, self._link)
                    self._note(name, *trial.run(Guesses(name, kernels, host), self._seconds))
        for name, error in extracted.refused.items():
            self.report.said[name] = f"{self.report.said.get(name, '')} | {error}"
            if self.report.launched.get(name) == "fault":
                self._note(name, "fault", f"{NOT_EXTRACTED}: {error}")
            elif name not in _reached(first, nodes):
                became = "triton_refuses" if ABSENT.search(str(error)) else "fault"
                self._note(name, became, f"{NOT_EXTRACTED}: {error}")

    def _note(self, name: str, became: str, why: str = "", said: str = "") -> None:
        self.report.launched[name] = became
        if why:
            self.report.why[name], self.report.said[name] = why, said[:1500] or why
        self._link.sending.send(self.report)


def _hush() -> None:
    """Keep compiler output about the code it rejects off the terminal."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


# Which files count


def outcome(tree: ast.Module, extracted: Extracted, tops: set[str]) -> str:
    """Return whether all kernels of a file are extracted, and if not, whether the others need its project."""
    if not extracted.refused:
        return "extracted" if extracted.kernels else "no_kernel"
    nodes = {node.name: node for node in kernels_of(tree)}
    foreign = _foreign(tree, tops)
    lost = [nodes[name] for name in extracted.refused if name in nodes]
    mine = [kernel for kernel in lost if not _made_of(tree, _reached_globals(kernel, nodes)) & foreign]
    return "refused" if mine or not lost else "needs_project"


def needs_project(tree: ast.Module, tops: set[str]) -> bool:
    """Whether a kernel uses an import from the file's own project, or from a package that is not installed."""
    foreign = _foreign(tree, tops)
    return any(foreign & _names(kernel) for kernel in kernels_of(tree)) or "*" in foreign


def _foreign(tree: ast.Module, tops: set[str]) -> set[str]:
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


def _made_of(tree: ast.Module, names: set[str]) -> set[str]:
    """Return the names of all module statements that bind some names, directly or indirectly."""
    bindings = [(_bound(statement), _names(statement)) for statement in tree.body]
    found, new = set(names), set(names)
    while new:
        new = set().union(*(read for bound, read in bindings if bound & new)) - found
        found |= new
    return found


def _bound(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return set()
    found = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    aliases = [node for node in ast.walk(statement) if isinstance(node, ast.alias)]
    return found | {alias.asname or alias.name.partition(".")[0] for alias in aliases}


def kernels_of(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield the functions that `triton.jit` turns into kernels, as a decorator or a call."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_jit(node)]
    passed = {one.id for call in calls for one in call.args if isinstance(one, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name in passed or any(map(_is_jit, node.decorator_list))):
            yield node


def _is_jit(node: ast.expr) -> bool:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).endswith("jit")


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def _reached(names: list[str], nodes: dict[str, ast.FunctionDef]) -> set[str]:
    """Return kernels with all those that they call, also as methods."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in nodes and name not in found:
            found.add(name)
            left.extend(_names(nodes[name]))
            left.extend(part.attr for part in ast.walk(nodes[name]) if isinstance(part, ast.Attribute))
    return found


def _reached_globals(kernel: ast.FunctionDef, nodes: dict[str, ast.FunctionDef]) -> set[str]:
    return set().union(*(globals_of(nodes[name]) for name in _reached([kernel.name], nodes)))


def entries(nodes: dict[str, ast.FunctionDef]) -> list[str]:
    """Return the kernels that host code may launch: those that no other uses, and that return nothing."""
    named = {name for node in nodes.values() for name in _names(node) & set(nodes) - {node.name}}
    return [
        name
        for name, node in nodes.items()
        if name not in named and not any(isinstance(part, ast.Return) and part.value for part in ast.walk(node))
    ]


# Outcome of a kernel


class Trial:
    """The guesses for one kernel, tried with Triton alone and with the evaluator.

    Args:
        name: the kernel's.
        kernels: those of the file as the evaluator makes them, and as Triton alone does.
        flows: which arguments each name depends on.
        link: to the process that handles crashes.
    """

    def __init__(self, name: str, kernels: tuple[dict[str, Any], dict[str, Any]], flows: Flows, link: "_Link") -> None:
        self._name = name
        self._ours, self._plain = kernels
        self._flows = flows
        self._link = link
        self._known: set[str] = set()
        self._heard: Counter[str] = Counter()
        self._furthest: Refusal | None = None
        self._since = 0
        self._end = 0.0

    def run(self, guesses: Guesses, seconds: int) -> tuple[str, str, str]:
        """Return the outcome of the kernel, a one-line reason, and the full messages."""
        if isinstance(missing := self._plain[self._name], str):
            why = Refusal(missing).cause
            return "triton_refuses", f"its file cannot be imported: {why}", missing
        signal.signal(signal.SIGALRM, _stop)
        self._end = time.monotonic() + seconds
        found = None
        with suppress(TimeoutError):
            self._limit(seconds)
            found = self._tried(guesses)
        signal.alarm(0)
        if found is not None:
            return found
        return "no_launch", "" if self._furthest is None else self._furthest.cause, self._most()

    def _tried(self, guesses: Guesses) -> tuple[str, str, str] | None:
        """Try guesses until Triton accepts one, and return the evaluator's result for it."""
        for launch in guesses.launches(MOST_GUESSES):
            if (text := repr(launch)) in self._known:
                continue
            self._known.add(text)
            said = (
                Refusal("the compiler crashed, or did not end") if text in self._link.lethal else self._refused(launch)
            )
            if said is None:
                return "compiled", "", ""
            if said.text.startswith("fault: "):
                return "fault", said.cause, said.text
            guesses.note(said)
            self._heard[said.text[-400:]] += 1
            if self._is_final(said):
                return "triton_refuses", self._furthest.cause if self._furthest else "", self._most()
        return None

    def _refused(self, launch: Any) -> Refusal | None:
        if (said := refuses(self._plain, self._name, launch)) is not None:
            _give_up(said.text)
            return said
        self._link.sending.send(repr(launch))
        self._limit(COMPILE_SECONDS)
        ours = compiled(self._ours, self._name, launch)
        said = None if not ours else fails(self._plain, self._name, launch) or Refusal(f"fault: {ours}")
        self._limit(self._end - time.monotonic())
        return said

    @staticmethod
    def _limit(seconds: float) -> None:
        signal.alarm(max(1, round(seconds)))

    def _is_final(self, said: Refusal) -> bool:
        """Whether an error affects all launches, and enough were tried to see whether one gets past it."""
        if self._furthest is None or said.progress > self._furthest.progress:
            self._furthest, self._since = said, 0
        if said.progress == self._furthest.progress and said.holds_for_all(self._flows.bound):
            self._furthest = said
        self._since += 1
        enough = GUESSES_BEYOND // 10 if self._furthest.lowered else GUESSES_BEYOND
        return self._since > enough and self._furthest.holds_for_all(self._flows.bound)

    def _most(self) -> str:
        return " || ".join(f"{count}x {said}" for said, count in self._heard.most_common(3))


def _stop(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _give_up(said: str) -> None:
    """Continue after interrupting a front end, whose own handlers take any exception for one about the kernel."""
    if "TimeoutError" in said:
        raise TimeoutError


def compiled(ours: dict[str, Any], name: str, launch: Any) -> str:
    """Return the evaluator's error for a launch; an empty string if it compiles."""
    if name not in ours:
        return NOT_EXTRACTED
    try:
        compilation.compile_launch(
            ours, {"kernel": name, "arguments": launch.arguments, "options": launch.options}, ARCH
        )
    except KernelCompilationError as error:
        _give_up(str(error))
        return str(error)
    return ""
