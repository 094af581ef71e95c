"""What holds for the documents: every link and anchor resolves, guides stay short, commands that they name exist."""

import re
import subprocess
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from warpsmith.evaluator import ERROR_CATEGORIES, FLAGS, STATUSES, Evaluator, EvaluatorConfig, Verdict
from warpsmith.evaluator.verdict_lines import bound_lines, kernel_lines, traffic_lines

ROOT = Path(__file__).resolve().parent.parent
# Documents whose paragraphs are held to the limit; reference tables and lists of results are not paragraphs.
SHORT = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *(
        f"docs/{name}.md"
        for name in (
            "evaluator",
            "evaluator-reference",
            "evaluator-design",
            "timing",
            "timing-reference",
            "timing-design",
            "glossary",
            "installing",
            "releasing",
            "development",
            "judgement",
            "fence",
            "isolation",
            "host-code",
            "integrations",
            "cuda-cpp",
            "bench",
            "kernelbench-problems",
            "model-bench",
            "traces",
            "serving",
            "sandbox",
            "records",
            "policy",
            "datasets",
            "status",
        )
    ),
]
WORDS_A_PARAGRAPH = 80


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in done.stdout.splitlines() if (path := ROOT / line).is_file()]


def prose(text: str) -> str:
    """Return the text without fenced code and code spans, in which brackets are no links."""
    text = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchors(path: Path) -> set[str]:
    """Return the anchors that a code host makes of a document's headings, and those that stand as HTML."""
    text = re.sub(r"^( *)```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return found.keys() | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken(path: Path) -> list[str]:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        to = (path.parent / place).resolve() if place else path
        if not to.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(to):
            wrong.append(f"{target}: no such heading")
    return wrong


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# One `thing`, twice\n\n# Here\n\n# Here\n\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#one-thing-twice) [b](other.md#here-1) [c](https://x.org/#y) `[d](e)` [f](#top)\n# Top\n"
    )
    assert broken(page) == []
    page.write_text("[a](other.md#no-heading) [b](absent.md) [c](#top)\n")
    assert len(broken(page)) == 3


@pytest.mark.parametrize("path", tracked("*.md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_and_anchor_resolves(path):
    assert broken(path) == []


def test_every_document_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.is_file():
            continue
        reached.add(path)
        targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(path.read_text(encoding="utf-8")))
        waiting += [(path.parent / target).resolve() for target in targets if not re.match(r"[a-z]+:", target)]
    assert [path.name for path in tracked("docs/*.md") if path not in reached] == []


def test_every_document_that_the_sources_name_is_there():
    named = set()
    for path in tracked("*.py", "*.cpp", "*.h", "*.toml", "*.service", "*/Containerfile", "*/README.md"):
        named |= set(re.findall(r"\bdocs/[a-z-]+\.md\b", path.read_text(encoding="utf-8", errors="replace")))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def paragraphs(text: str) -> list[str]:
    blocks = re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [block for block in blocks if not block.lstrip().startswith(("|", "#", "<"))]


@pytest.mark.parametrize("name", SHORT)
def test_paragraphs_are_short(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    long = [block for block in paragraphs(text) if len(block.split()) > WORDS_A_PARAGRAPH]
    assert not long, "\n\n".join(long)


def test_the_readme_is_read_in_three_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_the_support_matrix_fits_two_screens():
    assert len((ROOT / "docs/status.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_benchmarks_table_lists_every_script():
    listed = set(re.findall(r"^\| `(\w+\.py)` \|", (ROOT / "benchmarks/README.md").read_text(), flags=re.MULTILINE))
    scripts = [path.name for path in tracked("benchmarks/*.py") if path.parent.name == "benchmarks"]
    assert listed == {name for name in scripts if not name.startswith("_")}


def test_every_make_target_that_a_document_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in [*tracked("*.md"), *tracked(".github/workflows/*.yml")]:
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^|run: |&& )make ([a-z-]+)", text, flags=re.MULTILINE))
        assert named <= targets, f"{path.relative_to(ROOT)} names {sorted(named - targets)}"


def test_continuous_integration_runs_what_the_readme_tells_a_contributor_to_run():
    commands = set(re.findall(r"^make (?:lint|test)\b", (ROOT / "README.md").read_text(), flags=re.MULTILINE))
    run = (ROOT / ".github/workflows/ci.yml").read_text()
    assert commands == {"make lint", "make test"}
    for command in commands:
        assert re.search(rf"run: .*{command}$", run, flags=re.MULTILINE), command


def table(document: str, heading: str) -> list[str]:
    """Return the rows of the tables below a heading whose first cell is code."""
    section = (ROOT / document).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def names(document: str, heading: str) -> set[str]:
    """Return the code spans of the first column below a heading."""
    return {name for row in table(document, heading) for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


@pytest.mark.parametrize(
    ("heading", "there"),
    [
        ("Statuses", STATUSES),
        ("Error categories", ERROR_CATEGORIES),
        ("Flags", FLAGS),
        ("Settings", EvaluatorConfig.model_fields),
        ("Fields of a verdict", Verdict("correct", True, True).to_record()),
    ],
)
def test_the_evaluators_reference_lists_what_there_is(heading, there):
    assert names("docs/evaluator-reference.md", heading) == set(there)


def test_the_evaluators_reference_gives_defaults_and_upper_bounds():
    rows = {row.split("`")[1]: row for row in table("docs/evaluator-reference.md", "Settings")}
    for name, field in EvaluatorConfig.model_fields.items():
        limits = [limit for bound in field.metadata if (limit := getattr(bound, "le", None)) is not None]
        small = [field.default] if type(field.default) is int and field.default < 1 << 16 else []
        for number in limits + small:
            assert str(number) in rows[name].replace(",", ""), rows[name]


COMMAND = re.compile(r"warpsmith-(records|policy|evaluator|rollout|trainer) ([a-z][a-z0-9-]*)((?:\\\n|[^\n`|;&#)])*)")


def commands_named(text: str) -> set[tuple[str, str, str]]:
    """Return package, subcommand and option (or nothing) of each command line in code."""
    code = "\n".join(re.findall(r"^ *```.*?\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL))
    code += "\n" + "\n".join(re.findall(r"`(warpsmith-[^`]+)`", text))
    found = set()
    for package, name, rest in COMMAND.findall(code):
        found.add((package, name, ""))
        found |= {(package, name, option) for option in re.findall(r"(?<!\S)(--[a-z][a-z0-9-]*)", rest)}
    return found


def test_every_command_and_option_that_a_document_names_exists():
    known = {}
    for package in ("records", "policy", "evaluator", "rollout", "trainer"):
        group = get_command(import_module(f"warpsmith.{package}.cli").app)
        known[package] = {
            name: {option for given in command.params for option in (*given.opts, *given.secondary_opts)}
            for name, command in group.commands.items()
        }
    # A changelog also names what was removed.
    paths = [path for path in tracked("*.md") if path.name != "CHANGELOG.md"]
    named = {(path, one) for path in paths for one in commands_named(path.read_text(encoding="utf-8"))}
    assert len(named) > 100
    wrong = [
        f"{path.relative_to(ROOT)}: warpsmith-{package} {name} {option}"
        for path, (package, name, option) in sorted(named)
        if name not in known[package] or option not in known[package][name] | {"", "--help"}
    ]
    assert wrong == []


def python_names(text: str) -> set[tuple[str, str]]:
    """Return each module of ours that a document names, with a name from it (or nothing)."""
    imported = re.findall(r"^from (warpsmith\.[\w.]+) import ([\w, ]+)$", text, flags=re.MULTILINE)
    found = {(module, name.strip()) for module, names in imported for name in names.split(",")}
    return found | {(dotted, "") for dotted in re.findall(r"`(warpsmith\.\w[\w.]*\w)(?:\([^`]*)?`", text)}


def exists(module: str, name: str) -> bool:
    """Whether `module` has `name`, as an attribute or as a module in it; without a name, whether `module` is one."""
    file = ROOT / "packages/evaluator/src" / f"{module.replace('.', '/')}.py"
    if module.startswith("warpsmith.evaluator.integrations.") and file.is_file():
        # It imports its framework, which this environment lacks; the example that names it runs where it is.
        return name in file.read_text(encoding="utf-8")
    owner, _, last = f"{module}.{name}".rstrip(".").rpartition(".")
    try:
        return hasattr(import_module(owner), last) or find_spec(f"{owner}.{last}") is not None
    except ModuleNotFoundError:
        return False


def test_every_python_name_that_a_document_gives_exists():
    named = {(path, one) for path in tracked("*.md") for one in python_names(path.read_text(encoding="utf-8"))}
    assert len(named) > 20
    # Keys of a file's metadata and groups of entry points look like modules.
    others = {"warpsmith.table", "warpsmith.schema_version"} | entry_points().groups
    wrong = [
        f"{path.relative_to(ROOT)}: {module} {name}"
        for path, (module, name) in sorted(named)
        if module not in others and not exists(module, name)
    ]
    assert wrong == []


@pytest.mark.slow
def test_the_readme_shows_what_its_first_commands_print():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    problem = ROOT / "tests/attacks/problems/add.py"
    assert f"check {problem.relative_to(ROOT)} tests/attacks/controls/elementwise.py" in text
    shown = re.findall(r"^(correct|rejected)  compiled=(\w+)  trials=(\d)", text, flags=re.MULTILINE)
    with Evaluator(EvaluatorConfig(slots=1, ready_workers=1)) as evaluator:
        verdicts = [
            evaluator.evaluate(problem, ROOT / "tests/attacks" / name, trials=6)
            for name in ("controls/elementwise.py", "decoy_kernel.py")
        ]
    assert shown == [(one.status, str(one.compiled), str(one.trials)) for one in verdicts]
    assert f"flags: {verdicts[1].flags[0]}" in text
    assert verdicts[1].error_message is not None
    words = " ".join(text.split())
    assert verdicts[1].error_message.split(" Torch can")[0] in words
    for lines in (bound_lines, traffic_lines, kernel_lines):
        assert " ".join(lines(verdicts[0])) in words
