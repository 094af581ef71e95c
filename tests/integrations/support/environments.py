"""Environments of their own, and the examples of docs/integrations.md."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
UV = ROOT / ".venv/bin/uv"
PAGE = ROOT / "docs/integrations.md"
SUPPORT = Path(__file__).parent
MINUTES = 8


def blocks(heading: str, language: str) -> list[str]:
    """Return the code blocks of a language below a heading of the page, up to the next heading."""
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"{heading}\n"))
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@dataclass
class Environment:
    """An environment with its own packages, and a folder with problems in which commands run."""

    folder: Path
    work: Path

    def run(self, *command: str | Path, timeout_s: float = 60 * MINUTES, **variables: str) -> str:
        """Run a command of the environment; return what it wrote, and fail with it if it failed."""
        bin_ = self.folder / "bin"
        variables = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"} | variables
        done = subprocess.run(
            [str(bin_ / command[0]), *map(str, command[1:])],
            cwd=self.work,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def example(self, heading: str, **variables: str) -> str:
        """Run the first Python block below a heading."""
        (self.work / "example.py").write_text(blocks(heading, "python")[0])
        return self.run("python", "example.py", **variables)

    def support(self, name: str, *arguments: str | Path, **variables: str) -> str:
        """Run a program of tests/integrations/support."""
        return self.run("python", SUPPORT / name, *arguments, **variables)


def build(folder: Path, python: str) -> None:
    """Build the wheels of both packages for a Python."""
    for package in ("records", "evaluator"):
        source = ROOT / "packages" / package
        command = [UV, "build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, source]
        subprocess.run([str(part) for part in command], check=True)
