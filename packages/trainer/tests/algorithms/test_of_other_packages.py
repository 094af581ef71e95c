"""Algorithms, estimators, clips and aggregations that another package brings: entry points, and nothing else."""

import json
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[4] / "docs" / "extending.md"

pytestmark = pytest.mark.skipif(not DOCUMENT.is_file(), reason="the document is in the repository, not in the package")

OURS = ("algorithms", "estimators", "clips", "aggregations")

# Beside the document's package, one whose parts cannot be used.
UNUSABLE = """
[warpsmith.algorithms]
not_one = broken_parts:NOT_ONE

[warpsmith.clips]
absent = broken_parts.nowhere:Clip
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


PROGRAM = """
import json, sys
import numpy as np
import torch
from warpsmith.trainer.advantage import Turns, assign
from warpsmith.trainer.config import load_grpo
from warpsmith.trainer.loss.aggregations import row_weights
from warpsmith.trainer.loss.policy_loss import MicroBatch, policy_loss

algorithm = load_grpo(sys.argv[1], sys.argv[2:]).algorithm
turns = Turns(
    group=np.zeros(4, int), trajectory=np.array([0, 0, 1, 1]), turn=np.array([0, 1, 0, 1]),
    score=np.array([0.5, 0.1, 0.0, 0.2]), returns=np.zeros(4), valid=np.ones(4, bool),
)
credit = assign(turns, algorithm.estimator, algorithm.normalisation)
weights = row_weights(np.array([4, 1]), np.ones(2, bool), algorithm.aggregation)
one = torch.ones(1, 1, dtype=torch.float64)
new = (one * 0.0).requires_grad_()
ratio = torch.tensor([[1.2]], dtype=torch.float64).log()
loss = policy_loss(MicroBatch(new, one, -ratio, -ratio, None, one, one, one), algorithm.objective)
print(json.dumps([credit.advantage.tolist(), weights.tolist(), loss.item(), algorithm.clip.width]))
"""


def installed_as(site: Path, name: str, points: str) -> None:
    info = site / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(points)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory with two installed packages, on the path of the commands below alone; beside it a file `run.toml`."""
    site = tmp_path / "site"
    (site / "my_parts").mkdir(parents=True)
    (site / "my_parts/__init__.py").write_text("")
    for code in blocks("python"):
        (site / code.partition("\n")[0].removeprefix("# ")).write_text(code)
    project = tomllib.loads(next(text for text in blocks("toml") if text.startswith("# pyproject.toml")))["project"]
    groups = {group: parts for group, parts in project["entry-points"].items() if group.endswith(OURS)}
    assert len(groups) == len(OURS)
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in parts.items()) for group, parts in groups.items()
    ]
    installed_as(site, "my_parts", "\n".join(lines))
    (site / "broken_parts.py").write_text("NOT_ONE = {'estimator': 'best'}\n")
    installed_as(site, "broken_parts", UNUSABLE)
    chosen = next(text for text in blocks("toml") if "[algorithm]" in text)
    (tmp_path / "run.toml").write_text(f'[run]\ndir = "r"\n[policy]\npath = "p"\n{chosen}')
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", code + arguments[0], *arguments[1:]], capture_output=True, text=True, check=False
    )


def test_a_package_brings_parts_that_a_file_chooses(installed: Path) -> None:
    ended = run(installed, PROGRAM, str(installed.parent / "run.toml"))
    assert ended.returncode == 0, ended.stderr
    advantage, weights, loss, width = json.loads(ended.stdout)
    # Twice the best scores, 0.5 and 0.2, less their mean.
    assert advantage == pytest.approx([0.3, 0.3, -0.3, -0.3])
    assert weights == pytest.approx([1 / 4, 1 / 2])
    assert loss == pytest.approx(-1.2 * math.exp(-((0.2 / 0.4) ** 2)))
    assert width == 0.4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("algorithm.clip.widht=1.0", "unknown key `widht` in [algorithm.clip]; did you mean `width`?"),
        ("algorithm.clip=absent", "The clip `absent` of broken-parts 1.2 cannot be imported from broken_parts.nowhere"),
        ("algorithm.type=not_one", "The algorithm `not_one` of broken-parts 1.2 cannot be used"),
        ("algorithm.type=best_of_trajectories", "Did you mean `best_of_trajectory`?"),
    ],
)
def test_what_is_wrong_with_a_part_is_said_with_its_package(installed: Path, change: str, says: str) -> None:
    code = "import sys\nfrom warpsmith.trainer.cli import main\nsys.argv[0] = 'warpsmith-trainer'\nmain()"
    ended = run(installed, code, "grpo", str(installed.parent / "run.toml"), "--set", change)
    assert ended.returncode == 2
    assert says in " ".join(ended.stderr.split())


def test_the_schema_shows_what_a_package_brings(installed: Path) -> None:
    code = "import sys\nfrom warpsmith.trainer.cli import main\nsys.argv[0] = 'warpsmith-trainer'\nmain()"
    shown = run(installed, code, "schema")
    assert "Width of the bell." in shown.stdout
    assert '"best_of_trajectory"' in run(installed, code, "schema", "--json").stdout
