"""A kernel language from outside: the package of docs/extending.md, whose kernels are judged like any other's."""

import json
import re
import subprocess
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from pydantic import ValidationError

from warpsmith.evaluator import EvaluatorConfig

DOCUMENT = Path(__file__).parents[3] / "docs" / "extending.md"
PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return 2 * x + 1

def get_inputs():
    return [torch.randn(20, 30)]
"""
CANDIDATE = """\
from my_parts import language
import torch
import torch.nn as nn

# kernel turn: 2 * x + 1

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        language.launch("turn", x, out)
        return out
"""
CANDIDATES = {
    "right": CANDIDATE,
    "wrong": CANDIDATE.replace("2 * x + 1", "3 * x + 1"),
    "unreadable": CANDIDATE.replace("2 * x + 1", "two * x + 1"),
    "unlaunched": CANDIDATE.replace('language.launch("turn", x, out)', "out.fill_(1.0)"),
    "on content": CANDIDATE.replace("out = ", "known = x.flatten()[0].item()\n        out = "),
}
PROGRAM = """\
import json, sys
from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem

problem, candidates = json.loads(sys.stdin.read())
# Without a sandbox, whose workers see only what is below the prefix of this interpreter.
config = EvaluatorConfig(language="affine", slots=1, ready_workers=1, strongest_isolation="none",
                         minimum_isolation="none", hidden_shapes=False)
with Evaluator(config) as evaluator:
    found = {name: evaluator.evaluate(Problem.from_source(problem, "affine"), source, trials=3).to_record()
             for name, source in candidates.items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The interpreter of an environment in which the language is installed beside all that this one has."""
    place = tmp_path_factory.mktemp("outside")
    venv.create(place, symlinks=True)
    site = next(place.glob("lib/python*/site-packages"))
    (site / "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (site / "my_parts").mkdir()
    (site / "my_parts" / "__init__.py").write_text("")
    text = DOCUMENT.read_text()
    (code,) = re.findall(r"```python\n(# my_parts/language\.py\n.*?)```", text, re.DOTALL)
    (site / "my_parts" / "language.py").write_text(code)
    tables = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", text, re.DOTALL))
    (project,) = (table["project"] for table in tables if "project" in table)
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["warpsmith.languages"].items())
    info = site / "my_parts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[warpsmith.languages]\n{points}")
    return place / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(not DOCUMENT.is_file(), reason="the document is in the repository, not in the package")
def test_kernels_of_a_language_from_outside_are_judged(outside, tmp_path):
    done = subprocess.run(
        [outside, "-c", PROGRAM], input=json.dumps([PROBLEM, CANDIDATES]), capture_output=True, text=True,
        cwd=tmp_path, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    judged = {name: (verdict["status"], verdict["error_category"]) for name, verdict in found.items()}
    assert judged == {
        "right": ("correct", None),
        "wrong": ("incorrect", None),
        "unreadable": ("compile_error", "parse_error"),
        "unlaunched": ("rejected", None),
        "on content": ("runtime_error", "unsupported_architecture"),
    }
    assert "could not convert string to float: 'two'" in found["unreadable"]["error_message"]
    assert "launched no affine kernel: compute in comments" in found["unlaunched"]["error_message"]


def test_a_language_that_nobody_provides_is_refused():
    with pytest.raises(ValidationError, match=r"no kernel language `tritn`.*Did you mean `triton`"):
        EvaluatorConfig(language="tritn")
