"""Algorithms, estimators, clips and aggregations that another package brings: entry points, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
from typing import Literal

import numpy as np
from pydantic import Field

from warpsmith.trainer.advantage.estimators import Estimator
from warpsmith.trainer.advantage.types import Samples
from warpsmith.trainer.algorithms import Algorithm
from warpsmith.trainer.loss.aggregations import Aggregation
from warpsmith.trainer.loss.clips import Clip


class BestScore(Estimator):
    """Every turn of a trajectory is judged by its best score, times `weight`."""

    type: Literal["best"] = "best"
    weight: float = Field(default=1.0, gt=0, description="Factor of the score.")

    def samples(self, turns, critic):
        value = np.full(len(turns), np.nan)
        for rows in turns.trajectories():
            value[rows] = self.weight * turns.score[rows].max()
        return Samples(value=value, group=turns.group, unit=turns.trajectory)


class Soft(Clip):
    """The gradient of a ratio falls off as a bell around 1."""

    type: Literal["soft"] = "soft"
    width: float = Field(default=0.2, gt=0, description="Width of the bell.")

    def loss(self, ratio_BT, logprobs_BT, advantage_B1):
        weight_BT = (-((ratio_BT.detach() - 1) / self.width) ** 2).exp()
        return -weight_BT * ratio_BT * advantage_B1

    def active(self, ratio_BT, advantage_B1):
        return ratio_BT < 1 - self.width, ratio_BT > 1 + self.width


class RootLength(Aggregation):
    """A token weighs 1 / (rows x root of its row's length)."""

    type: Literal["root"] = "root"

    def weights(self, lengths_N):
        return 1.0 / (len(lengths_N) * np.sqrt(lengths_N))


OURS = Algorithm({"estimator": {"type": "best", "weight": 2.0}, "scale": "none", "clip": "soft", "aggregation": "root"})
NOT_ONE = {"estimator": "best"}
'''

POINTS = """
[warpsmith.algorithms]
ours = their_parts:OURS
broken = their_parts:NOT_ONE

[warpsmith.estimators]
best = their_parts:BestScore

[warpsmith.clips]
soft = their_parts:Soft
absent = their_parts.nowhere:Clip

[warpsmith.aggregations]
root = their_parts:RootLength
"""

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


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory with an installed package; it is put on the path of the commands below alone."""
    site = tmp_path / "site"
    info = site / "their_parts-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "their_parts.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-parts\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "run.toml").write_text('[run]\ndir = "r"\n[policy]\npath = "p"\n[algorithm]\ntype = "ours"\n')
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", code + arguments[0], *arguments[1:]], capture_output=True, text=True, check=False
    )


def test_a_package_brings_parts_that_a_file_chooses(installed: Path) -> None:
    import json
    import math

    ended = run(installed, PROGRAM, str(installed.parent / "run.toml"), "algorithm.clip.width=0.4")
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
        ("algorithm.clip=absent", "The clip `absent` of their-parts 1.2 cannot be imported from their_parts.nowhere"),
        ("algorithm.type=broken", "The algorithm `broken` of their-parts 1.2 cannot be used"),
        ("algorithm.type=our", "installed are broken, cispo, dapo, dr_grpo, grpo, gspo, ours, ppo, rloo"),
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
    assert '"ours"' in run(installed, code, "schema", "--json").stdout
