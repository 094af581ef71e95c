"""What holds for the workspace as a whole: pins, one way of imports, what every package carries."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
RANK = {"records": 0, "policy": 1, "evaluator": 1, "rollout": 2, "trainer": 3}
ABSENT = {"torchvision", "torchaudio", "torchcodec"}
TRACKERS = {"mlflow", "tensorboard", "trackio", "wandb-view"}
FRAMEWORKS = {"inspect", "nemo-gym", "openenv", "skyrl-gym", "trl", "verifiers", "verl"}
"""Extras of frameworks that the evaluator adapts to; as trackers, each is tried in an environment of its own, so no
lock has it."""


def locked(variant: str = "cpu") -> dict[str, Version]:
    lock = (ROOT / f"requirements/{variant}.lock").read_text()
    pairs = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, flags=re.MULTILINE)
    return {name.lower().replace("_", "-"): Version(version) for name, version in pairs}


def metadata(package: str) -> dict:
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())


def metadata_of_the_workspace() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(("variant", "other"), [("cpu", "cuda"), ("cuda", "cpu")])
@pytest.mark.parametrize("package", RANK)
def test_the_lock_satisfies_what_each_package_asks_for(package, variant, other):
    project = metadata(package)["project"]
    extras = project.get("optional-dependencies", {})
    wanted = project["dependencies"] + [
        line for name in extras.keys() - {other} - FRAMEWORKS - TRACKERS for line in extras[name]
    ]
    pins = locked(variant)
    for requirement in map(Requirement, wanted):
        name = requirement.name.lower().replace("_", "-")
        if name.startswith("warpsmith-"):
            assert name.removeprefix("warpsmith-") in RANK
            continue
        assert name in pins, f"{package} asks for {name}, which requirements/{variant}.lock does not hold"
        assert requirement.specifier.contains(pins[name], prereleases=True), (
            f"{package}: {requirement} against {pins[name]}"
        )


def test_what_must_stay_out_is_out():
    assert not ABSENT & set(locked())
    for name in ABSENT:
        with pytest.raises(ModuleNotFoundError):
            distribution(name)


@pytest.mark.parametrize("package", RANK)
def test_each_package_carries_its_own_papers_and_command(package):
    folder = ROOT / "packages" / package
    assert (folder / "README.md").stat().st_size > 500
    assert "0.1.0" in (folder / "CHANGELOG.md").read_text()
    assert list((folder / "tests").rglob("test_*.py"))
    assert metadata(package)["project"]["scripts"] == {f"warpsmith-{package}": f"warpsmith.{package}.cli:main"}


@pytest.mark.parametrize("package", RANK)
def test_each_package_says_whose_it_is_and_what_it_runs_on(package):
    project = metadata(package)["project"]
    assert project["authors"] == [{"name": "Warpsmith maintainers"}]
    assert project["license"] == "Apache-2.0"
    assert project["keywords"]
    classified = {line.removeprefix("Programming Language :: Python :: ") for line in project["classifiers"]}
    asked = Requirement(f"python{metadata_of_the_workspace()['project']['requires-python']}").specifier
    assert {f"3.{minor}" for minor in range(20) if asked.contains(f"3.{minor}")} <= classified


def is_ours(requirement: Requirement) -> bool:
    return requirement.name.startswith("warpsmith-")


@pytest.mark.parametrize("package", RANK)
def test_siblings_are_asked_for_below_the_next_version_that_may_break(package):
    siblings = [line for line in map(Requirement, metadata(package)["project"]["dependencies"]) if is_ours(line)]
    assert len(siblings) == RANK[package] + (package in ("rollout", "trainer"))
    for line in siblings:
        own = Version(distribution(line.name).version)
        assert line.specifier.contains(own), line
        assert not line.specifier.contains(f"{own.major}.{own.minor + 1}"), line


@pytest.mark.parametrize("package", RANK)
def test_a_changelog_dates_what_it_released(package):
    headings = re.findall(r"^## (.*)$", (ROOT / "packages" / package / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings
    for heading in headings:
        assert re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading), heading


@pytest.mark.parametrize("name", ["demo.toml", "demo-sft.toml"])
def test_the_demos_files_are_those_of_the_package(name):
    assert (ROOT / "configs" / name).resolve() == ROOT / "packages/trainer/src/warpsmith/trainer/demo" / name


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {name.split(".")[1] for name in names if name.startswith("warpsmith.")}
    return found & set(RANK)


@pytest.mark.parametrize("package", RANK)
def test_imports_go_one_way(package):
    for path in (ROOT / "packages" / package / "src").rglob("*.py"):
        for other in imported_packages(path) - {package}:
            assert RANK[other] < RANK[package], f"{path.relative_to(ROOT)} imports warpsmith.{other}"


def brought_along(name: str, extras: frozenset[str], seen: set[tuple[str, str]]) -> set[str]:
    """Return the distributions, by canonical name, that a requirement installs; what is absent here brings nothing."""
    name = canonicalize_name(name)
    found = {name}
    for extra in {"", *extras}:
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                found |= brought_along(requirement.name, frozenset(requirement.extras), seen)
    return found


def imported_at_once(path: Path) -> set[str]:
    """Return the top-level modules that a test file imports when it is collected."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("package", RANK)
def test_the_tests_of_a_package_need_what_it_brings(package):
    tests = ROOT / "packages" / package / "tests"
    extras = frozenset({"test", "cpu"} & set(metadata(package)["project"]["optional-dependencies"]))
    there = brought_along(f"warpsmith-{package}", extras, set())
    owners = packages_distributions()
    own = {path.stem for path in tests.rglob("*.py")} | {"warpsmith"}
    # Not the programs that a test starts once it has found what they need.
    for path in [*tests.rglob("test_*.py"), *tests.rglob("conftest.py")]:
        for module in imported_at_once(path) - own - sys.stdlib_module_names:
            names = {canonicalize_name(name) for name in owners.get(module, [module])}
            assert names & there, f"{path.relative_to(ROOT)} imports {module}, which warpsmith-{package} does not bring"


@pytest.mark.parametrize("package", RANK)
def test_the_namespace_has_no_init(package):
    assert not (ROOT / "packages" / package / "src/warpsmith/__init__.py").exists()


@pytest.mark.parametrize(
    "module", ["records", "policy", "evaluator", "rollout", "trainer", "trainer.config", "rollout.config"]
)
def test_configuration_is_importable_without_torch(module):
    code = f"import sys, warpsmith.{module}; sys.exit('torch' in sys.modules or 'vllm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", RANK)
def test_each_command_tells_its_version_and_teaches(package):
    command = Path(sys.executable).parent / f"warpsmith-{package}"
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split() == [f"warpsmith-{package}", distribution(f"warpsmith-{package}").version]
    help_text = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    assert f"warpsmith-{package} " in help_text, "the help shows an example of its own command"
