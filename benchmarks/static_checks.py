"""Which attacks KernelBench's static checks see: its `validate_kernel_static` on the corpus and on honest kernels.

The checks read the text of a candidate and run nothing, so this needs no GPU. `errors` are its strict checks, which
forbid a candidate; `warnings` are those that it leaves to the user. An attack is `unseen` by both parts of KernelBench
if its evaluator calls it correct (`results/attacks.json`, and `results/attacks_cuda.json` where that exists) and no
strict check forbids it.

    python benchmarks/static_checks.py /path/to/KernelBench
"""

import argparse
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from _machine import describe, skip, write_result
from _side_problems import solutions
from attacks import BACKENDS, FOLDERS, cases, commit_of, outcomes

HERE = Path(__file__).parent
VERDICTS: Final = {"triton": "attacks.json", "cuda_cpp": "attacks_cuda.json"}
LANGUAGES: Final = {"triton": "triton", "cuda": "cuda_cpp"}

Row = dict[str, Any]


def checked(validate: Any, language: str, path: Path) -> Row:
    """Return what the checks say about a file, for float32 problems."""
    valid, errors, warnings = validate(path.read_text(encoding="utf-8"), BACKENDS[language], "fp32")
    return {"forbidden": not valid, "errors": sorted(errors), "warnings": sorted(warnings)}


def all_checked(validate: Any) -> dict[str, dict[str, Row]]:
    """Check the corpus and the solutions of `side_by_side.py`; by language and kind of file."""
    found: dict[str, dict[str, Row]] = {}
    for language in FOLDERS:
        known = believed(language)
        for case in cases(language):
            row = checked(validate, language, case.path)
            if case.key in known:
                row["evaluator"] = known[case.key]
            found.setdefault(f"{language}/{case.kind}", {})[case.path.stem] = row
    for one in solutions():
        language = LANGUAGES[one.language]
        found.setdefault(f"{language}/solution", {})[one.key] = checked(validate, language, one.path)
    return found


def believed(language: str) -> dict[str, str]:
    """Return the outcomes of KernelBench's evaluator by case, where they were measured."""
    path = HERE / "results" / VERDICTS[language]
    if not path.exists():
        return {}
    part = json.loads(path.read_text(encoding="utf-8")).get("kernelbench", {"verdicts": {}})
    return outcomes(part["verdicts"], list(cases(language)))


def table(found: dict[str, dict[str, Row]]) -> str:
    """Return the counts in Markdown, and each attack that neither the evaluator nor a strict check sees."""
    lines = [
        "| | files | forbidden | warned of alone | evaluator fooled | and not forbidden |",
        "| --- |" + " --- |" * 5,
    ]
    for kind, rows in found.items():
        fooled = [row for row in rows.values() if row.get("evaluator") == "fooled"]
        measured = any("evaluator" in row for row in rows.values()) and not kind.endswith(("control", "solution"))
        cells = [
            len(rows),
            sum(row["forbidden"] for row in rows.values()),
            sum(bool(row["warnings"]) and not row["forbidden"] for row in rows.values()),
            len(fooled) if measured else "-",
            sum(not row["forbidden"] for row in fooled) if measured else "-",
        ]
        lines.append(f"| {kind} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", "Unseen by both:", ""]
    return "\n".join([*lines, *(f"- `{name}`" for name in unseen(found))]) + "\n"


def unseen(found: dict[str, dict[str, Row]]) -> Iterator[str]:
    """Yield the attacks and wrong kernels that the evaluator calls correct and no strict check forbids."""
    for kind, rows in found.items():
        for name, row in rows.items():
            if row.get("evaluator") == "fooled" and not row["forbidden"]:
                yield f"{kind}/{name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelbench", type=Path, nargs="?", help="a checkout of KernelBench")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "static_checks.json")
    arguments = parser.parse_args()
    if arguments.kernelbench is None:
        skip("this needs the path of a checkout of KernelBench")
    source = arguments.kernelbench / "src" / "kernelbench" / "kernel_static_checker.py"
    # By itself: its package imports clients of language models.
    specification = importlib.util.spec_from_file_location("kernel_static_checker", source)
    if specification is None or specification.loader is None or not source.exists():
        parser.error(f"{source} does not exist; pass the path of a checkout of KernelBench")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found = all_checked(module.validate_kernel_static)
    here = {**describe(("warpsmith-evaluator",)), "commit": commit_of(arguments.kernelbench)}
    write_result(arguments.out, {**here, "files": found})
    text = table(found)
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
