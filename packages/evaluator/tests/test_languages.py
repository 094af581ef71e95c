"""A kernel language from outside: a package with an entry point, whose kernels are judged like any other's."""

import json
import subprocess
import sysconfig
import venv

import pytest
from pydantic import ValidationError

from warpsmith.evaluator import EvaluatorConfig

LANGUAGE = '''
"""Kernels that are one comment each: `# kernel NAME: FACTOR * x + OFFSET`."""

import re

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import Hooks, KernelLanguage, OneConfiguration, UnsupportedDeviceError

KERNEL = re.compile(r"^# kernel (\\w+): (\\S+) \\* x \\+ (\\S+)$", re.MULTILINE)
MONITORS = []


def launch(name, x, out):
    """What host code calls."""
    MONITORS[-1].launch(name, {"x": x, "out": out})


class Monitor:
    def __init__(self):
        self.launches = 0
        self.on_launch = None
        MONITORS.append(self)

    def launch(self, name, arguments):
        self.launches += 1
        self.on_launch(name, arguments, {})[2] = [1]


class Kernels:
    def __init__(self, source):
        self.found = {name: (float(factor), float(offset)) for name, factor, offset in KERNEL.findall(source)}

    def __getitem__(self, name):
        if name not in self.found:
            raise WireError(f"The source has no kernel {name}.")
        factor, offset = self.found[name]
        return {(1,): lambda x, out: out.copy_(factor * x + offset)}

    def argument(self, described, tensor):
        raise WireError(f"{described} is no argument of an affine kernel.")


class Affine(KernelLanguage):
    name = "affine"
    title = "affine"
    kernel_form = "comments `# kernel NAME: FACTOR * x + OFFSET`"
    slow_compile_advice = "Nothing here takes long."

    def version(self):
        return "affine 1"

    def warm_up(self, kind, roles, arch, folder):
        Kernels("# kernel k: 1 * x + 0")

    def compile(self, source, launches, folder, arch, *, binaries):
        message = ""
        try:
            Kernels(source)
        except ValueError as error:
            message = str(error)
        answer = {"ok": not message, "category": "parse_error" if message else "", "message": message}
        return answer | {"tf32": False, "binaries": [], "lost": "", "crashed": False}

    def record_interpreted(self, report, is_read_only):
        raise UnsupportedDeviceError("affine kernels are recorded detached")

    def record_detached(self, *, has_device):
        return Hooks(Monitor(), OneConfiguration())

    def record_on_device(self, device, compiled):
        raise UnsupportedDeviceError("affine kernels are recorded detached")

    def describe(self, value, tensor):
        return ["value", value]

    def category_told(self, error):
        return None

    def category_of_kind(self, error):
        return "unsupported_architecture" if isinstance(error, UnsupportedDeviceError) else None

    def watch_replays(self, is_read_only):
        pass

    def interpreted(self, source, folder):
        return Kernels(source)

    def load(self, device, binaries):
        raise UnsupportedDeviceError("affine kernels have no machine code")

    def device_argument(self, described, tensor):
        raise UnsupportedDeviceError("affine kernels have no machine code")


AFFINE = Affine()
'''
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
import affine_language
import torch
import torch.nn as nn

# kernel turn: 2 * x + 1

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        affine_language.launch("turn", x, out)
        return out
"""
CANDIDATES = {
    "right": CANDIDATE,
    "wrong": CANDIDATE.replace("2 * x + 1", "3 * x + 1"),
    "unreadable": CANDIDATE.replace("2 * x + 1", "two * x + 1"),
    "unlaunched": CANDIDATE.replace('affine_language.launch("turn", x, out)', "out.fill_(1.0)"),
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
    (site / "affine_language.py").write_text(LANGUAGE)
    info = site / "affine_language-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: affine-language\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[warpsmith.languages]\naffine = affine_language:AFFINE\n")
    return place / "bin" / "python"


@pytest.mark.slow
def test_kernels_of_a_language_from_outside_are_judged(outside, tmp_path):
    done = subprocess.run(
        [outside, "-c", PROGRAM], input=json.dumps([PROBLEM, CANDIDATES]), capture_output=True, text=True,
        cwd=tmp_path, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    told = {name: (verdict["status"], verdict["error_category"]) for name, verdict in found.items()}
    assert told == {
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
