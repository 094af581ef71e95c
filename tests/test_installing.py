"""What messages say to install: a folder and extras that this repository has."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "packages"
CALL = re.compile(r"installing\(([^()]*)\)")
NAME = re.compile(r"[\"']([\w-]+)[\"']")
FROM_AN_INDEX = re.compile(r"(?:pip|uv pip) install [\"'`]?warpsmith-")


def extras_of(package):
    document = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text())
    return document["project"].get("optional-dependencies", {}).keys()


def sources():
    return [path for path in PACKAGES.glob("*/src/**/*.py") if path.name != "wording.py"]


def test_messages_name_packages_and_extras_that_exist():
    found = [NAME.findall(call) for path in sources() for call in CALL.findall(path.read_text())]
    literal = [names for names in found if names and names[0] in {path.name for path in PACKAGES.iterdir()}]
    assert len(literal) > 9
    for package, *extras in literal:
        assert set(extras) <= extras_of(package), (package, extras)


def test_nothing_is_to_be_installed_from_an_index():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *PACKAGES.glob("*/README.md")]
    named = [str(path) for path in (*sources(), *pages) if FROM_AN_INDEX.search(path.read_text())]
    assert named == []
