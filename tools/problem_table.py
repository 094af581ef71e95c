"""Writes docs/kernelbench-problems.md from the audit of KernelBench and the repairs of the evaluator package.

Run it from a checkout with the packages installed: python tools/problem_table.py
"""

import json
from pathlib import Path
from typing import Any

from warpsmith.evaluator.datasets.repairs import ProblemRepairs, Repair, known
from warpsmith.records.folders import write_file

ROOT = Path(__file__).resolve().parent.parent
AUDIT = ROOT / "benchmarks/results/kernelbench_audit.json"
DOCUMENT = ROOT / "docs/kernelbench-problems.md"
GIB = 2**30
LARGE = 16 * GIB
"""More than this is too large for 24 GB: contexts, and what the reference computes in between, need the rest."""
COMPARISONS = {"evaluator": "evaluator", "kernelbench_1e-2": "1e-2", "kernelbench_1e-4": "1e-4"}
LETTERS = {
    "all zeros": "Z",
    "one constant": "C",
    "the output for other inputs": "O",
    "its own output shuffled": "S",
    "zeros for the smaller half of its output": "H",
}

HEAD = """\
# KernelBench's problems

Written by `tools/problem_table.py`; do not edit.

`warpsmith-evaluator audit` ran on {device} over {problems} problems of KernelBench's levels 1 to 3, with {torch}. \
This page lists the {degenerate} for which a wrong output passes by one comparison or more, or which are refused as \
random, and the {large} that are too large for a card of 24 GB. `warpsmith-evaluator repair` [repairs most of \
them](bench.md#repair).

Each problem is identified by the SHA-256 of its source, in `kernelbench_repairs.toml`. In a dataset of another \
revision nothing is changed.

## Wrong outputs that pass

Comparisons: the evaluator's, and KernelBench's `allclose` with 1e-2 (v0 and v0.1) and 1e-4, absolute and relative. \
Z: all zeros. C: one constant. O: the output for other inputs. S: its own output shuffled. H: zeros for the smaller \
half. By the evaluator's comparison a wrong output passes in {by_evaluator} problems, with 1e-2 in {by_loose}, with \
1e-4 in {by_strict}.

The evaluator refuses problems for which a wrong output passes by its own comparison, unless `allow_degenerate` is \
set. "In part": what still passes is named. "None": no inputs or sizes help, because the computation itself \
is degenerate.

"Audited": the repaired problem was audited on a CPU, at full size or with fewer samples or features, and \
accepted no wrong output by any of the three comparisons, except those named. The evaluator gives a CPU at most \
1 GiB for one set of inputs or outputs, and a worker 4 GiB of memory, which some problems exceed at full size.

| problem | evaluator | 1e-2 | 1e-4 | why | repair | audited |
| --- | --- | --- | --- | --- | --- | --- |
"""

SIZES = """
## Too large for 24 GB

Bytes of inputs, outputs and parameters are the audit's, in GiB. The judge needs more beside them. The last figure \
is an estimate: four copies of the inputs (its own, each worker's, one in transit), four of the outputs (the \
reference's, the expected one, the candidate's buffer and its copy), three of the parameters. A problem is listed if \
that exceeds {large:g} GiB.

Driver contexts, and what the reference computes in between, come on top and are not in the audit. So a problem that \
is not listed can still be too large. After the changes the estimate is at most 12 GiB. It was not checked on such a \
card.

| problem | inputs | outputs | parameters | with the judge | change |
| --- | --- | --- | --- | --- | --- |
"""


def document() -> str:
    """Return the document's text."""
    audit = audit_held()
    entries = {(one["level"], one["number"]): one for one in audit["problems"]}
    repairs = {(one.level, one.number): one for one in known()}
    wrong = [place for place, entry in entries.items() if _passes(entry) or entry["error"]]
    large = [place for place, entry in entries.items() if needed(entry) > LARGE]
    head = HEAD.format(
        device=f"an {_device(audit)}",
        problems=len(entries),
        torch=f"torch {audit['settings']['torch']}",
        degenerate=len(wrong),
        large=len(large),
        **{
            name: _count(audit, key)
            for name, key in zip(("by_evaluator", "by_loose", "by_strict"), COMPARISONS, strict=True)
        },
    )
    degenerate = (_degenerate_row(entries[place], repairs[place]) for place in wrong)
    sizes = (_size_row(entries[place], repairs[place].sets["24gb"]) for place in large)
    return head + "".join(degenerate) + SIZES.format(large=LARGE / GIB) + "".join(sizes)


def audit_held() -> dict[str, Any]:
    """Return the audit's content."""
    return dict(json.loads(AUDIT.read_text(encoding="utf-8")))


def _device(audit: dict[str, Any]) -> str:
    return str(next(entry["facts"]["device"] for entry in audit["problems"] if entry["facts"]))


def _count(audit: dict[str, Any], comparison: str) -> int:
    return sum(bool(entry["facts"] and entry["facts"]["passes"][comparison]) for entry in audit["problems"])


def _passes(entry: dict[str, Any]) -> bool:
    return bool(entry["facts"]) and any(entry["facts"]["passes"].values())


def needed(entry: dict[str, Any]) -> int:
    """Return the estimated bytes of device memory that a problem needs; 0 if it was not audited."""
    facts = entry["facts"]
    if facts is None:
        return 0
    return int(4 * (facts["inputs_bytes"] + facts["outputs_bytes"]) + 3 * facts["parameters_bytes"])


def _degenerate_row(entry: dict[str, Any], repairs: ProblemRepairs) -> str:
    audited = repairs.sets["inputs"].audited if "inputs" in repairs.sets else ""
    return f"| {_name(entry)} | {' | '.join(_letters(entry))} | {repairs.why} | {_repair(repairs)} | {audited} |\n"


def _letters(entry: dict[str, Any]) -> list[str]:
    """Return the wrong outputs that pass by each comparison, as letters."""
    if entry["facts"] is None:
        return ["refused"] * len(COMPARISONS)
    passing = (entry["facts"]["passes"][name] for name in COMPARISONS)
    return ["".join(letter for name, letter in LETTERS.items() if name in names) for names in passing]


def _repair(repairs: ProblemRepairs) -> str:
    if repairs.beyond_repair:
        return f"None. {repairs.beyond_repair}"
    repair = repairs.sets["inputs"]
    return f"{repair.reason} {_changes(repair)}." + (f" In part: {repair.remains}." if repair.remains else "")


def _size_row(entry: dict[str, Any], repair: Repair) -> str:
    sizes = [entry["facts"][f"{name}_bytes"] for name in ("inputs", "outputs", "parameters")]
    figures = " | ".join(f"{size / GIB:.2f}" for size in (*sizes, needed(entry)))
    return f"| {_name(entry)} | {figures} | {_changes(repair)} |\n"


def _changes(repair: Repair) -> str:
    return "; ".join(f"{change.where()}: `{change.old}` to `{change.new}`" for change in repair.changes)


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['level']}/{entry['name']}"


if __name__ == "__main__":
    write_file(DOCUMENT, document())
