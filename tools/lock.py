"""Resolve requirements/cpu.in into requirements/cpu.lock: the one tested set of pins for machines without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    requirements = ROOT / "requirements"
    environment = dict(os.environ)
    backend = ["--torch-backend", "cpu"]
    if links := os.environ.get("PIP_FIND_LINKS"):
        environment["UV_FIND_LINKS"] = ",".join(links.split())
        backend = []
    command = [
        ROOT / ".venv/bin/uv",
        "pip",
        "compile",
        "cpu.in",
        "--overrides",
        "overrides.txt",
        "--python-version",
        "3.11",
    ]
    command += ["--no-emit-index-url", "--no-header", "--no-annotate", *backend, "-o", "cpu.lock"]
    return subprocess.run([str(part) for part in command], cwd=requirements, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
