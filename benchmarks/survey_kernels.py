"""From how many of other projects' Triton files the evaluator extracts and compiles the kernels.

    python benchmarks/survey_kernels.py --out survey.json liger=PATH@REVISION fla=PATH@REVISION ...

Each argument is a project's name, a folder of its sources, and their revision. Host code is read and never run. A file
counts if it defines launchable kernels that use no module of their project, and Triton alone does not reject them all.
For each kernel that no other calls, launches are guessed until Triton alone, on the file's own text, accepts one; the
evaluator must then compile that launch from what it extracted. A kernel has one of four outcomes:

- `compiled`: both compile a launch;
- `fault`: Triton alone compiles a launch that the evaluator rejects, or whose kernel it does not extract;
- `triton_refuses`: Triton alone rejects it for reasons independent of arguments: a removed operation, an unbound name,
    an unsupported form;
- `no_launch`: Triton alone rejects every guess, which says nothing about the evaluator.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _machine import describe, skip, write_result

COUNTED = ("extracted", "refused")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("projects", nargs="*", metavar="NAME=FOLDER@REVISION")
    parser.add_argument("--out", type=Path, default=Path("survey_kernels.json"), help="projects in it are kept")
    parser.add_argument("--details", type=Path, help="full messages for each kernel, which quote the sources")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--other-backends", default="$^", help="files for other chips: whose path matches this")
    parser.add_argument("--seconds", type=int, default=20, help="maximum time for the guesses of one kernel")
    arguments = parser.parse_args()
    if not arguments.projects:
        skip("name projects and the folders of their sources")
    for project in arguments.projects:
        name, _, place = project.partition("=")
        folder, _, revision = place.partition("@")
        surveyed = survey(Path(folder), arguments)
        _keep(arguments.out, name, {"revision": revision} | surveyed)
    return 0


def survey(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the counts of a project from its folder of sources."""
    from _kernel_survey import FileReport, apart

    known, found = _details(arguments.details), []
    for path in kernel_files(folder):
        below = str(path.relative_to(folder))
        if re.search(arguments.other_backends, below):
            found.append(asdict(FileReport(below, "other_backend")))
            continue
        if arguments.only in below and below not in known:
            known[below] = asdict(apart(path, folder, arguments.seconds))
            if arguments.details is not None:
                write_result(arguments.details, {"files": list(known.values())})
        found += [known[below]] if below in known else []
    return summary(found)


def _details(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the file reports of an interrupted run."""
    if path is None or not path.exists():
        return {}
    return {report["path"]: report for report in json.loads(path.read_text(encoding="utf-8"))["files"]}


def _keep(out: Path, name: str, surveyed: dict[str, Any]) -> None:
    known = json.loads(out.read_text(encoding="utf-8"))["projects"] if out.exists() else {}
    projects = known | {name: surveyed}
    print(name, {key: value for key, value in surveyed.items() if key != "not_compiled"}, flush=True)
    total = {key: sum(one[key] for one in projects.values()) for key in ("self_contained", "extracted_and_compiled")}
    share = {"share": round(total["extracted_and_compiled"] / max(1, total["self_contained"]), 4)}
    write_result(out, describe(["triton", "torch"]) | {"arch": "sm_90", "total": total | share, "projects": projects})


def kernel_files(folder: Path) -> Iterator[Path]:
    """Yield the files that seem to define kernels."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if re.search(r"^\s*@(triton\.)?jit\b|triton\.jit\(", text, re.MULTILINE):
            yield path


def summary(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of a project, and which kernels did not compile."""
    became = {report["path"]: _became(report) for report in reports}
    counts = Counter(became.values())
    counted = [report for report in reports if became[report["path"]] in ("whole", "at_fault", "without_launch")]
    kernels = Counter(what for report in reports for what in report["launched"].values())
    return {
        "self_contained": len(counted),
        "extracted": sum(not any(_is_lost(report, name) for name in report["launched"]) for report in counted),
        "extracted_and_compiled": counts["whole"],
        "share": round(counts["whole"] / len(counted), 4) if counted else None,
        "at_fault": counts["at_fault"],
        "without_launch": counts["without_launch"],
        "not_counted": {
            name: count for name, count in counts.items() if name not in ("whole", "at_fault", "without_launch")
        },
        "kernels": {name: kernels[name] for name in ("compiled", "fault", "triton_refuses", "no_launch")},
        "not_compiled": {report["path"]: failed for report in reports if (failed := _failed(report))},
    }


def _became(report: dict[str, Any]) -> str:
    """Return the outcome of a file: why it is not counted, `at_fault`, `without_launch`, or `whole`.

    A file is whole if every kernel in it that Triton alone accepts is compiled.
    """
    found = set(report["launched"].values())
    if report["outcome"] not in COUNTED:
        return str(report["outcome"])
    for what, name in (("fault", "at_fault"), ("no_launch", "without_launch")):
        if what in found:
            return name
    if "compiled" in found:
        return "whole"
    return "triton_refuses" if found else "nothing_to_launch"


def _is_lost(report: dict[str, Any], name: str) -> bool:
    """Whether a kernel is not extracted although Triton alone accepts it."""
    return report["launched"][name] == "fault" and report["why"].get(name, "").startswith("not extracted")


def _failed(report: dict[str, Any]) -> dict[str, str]:
    """Return the kernels of a file that did not compile, with the reason."""
    return {
        name: f"{what}: {report['why'].get(name, '')}"[:200]
        for name, what in report["launched"].items()
        if what != "compiled"
    }


if __name__ == "__main__":
    sys.exit(main())
