"""Real parts for the tests: sources of problems and candidates, one pool of workers, one evaluator."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from warpsmith.evaluator import Evaluator, EvaluatorConfig, Problem, _native
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.session import ReferenceSession
from warpsmith.evaluator.server.child import ServerProcess

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))

# How long an example takes says nothing on a machine that does other work as well.
EXAMPLES = int(os.environ.get("WARPSMITH_EXAMPLES", "40"))
settings.register_profile("unhurried", settings(), deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")

ADD_PROBLEM = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, y):
        return x + y

def get_inputs():
    return [torch.randn(20, 30), torch.randn(20, 30)]
"""

ADD_CANDIDATE = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)

class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
        return out
"""


@pytest.fixture(scope="session")
def config() -> EvaluatorConfig:
    return EvaluatorConfig(slots=2, ready_workers=1, memory_bytes=1 << 30, timeout_s=20)


@pytest.fixture(scope="session")
def evaluator(config: EvaluatorConfig) -> Iterator[Evaluator]:
    with Evaluator(config) as running:
        yield running


@pytest.fixture(scope="session")
def lenient(config: EvaluatorConfig) -> Iterator[Evaluator]:
    """An evaluator of one slot that accepts what cannot be replayed and degenerate problems.

    It gives the reference's code little time.
    """
    differing = {"slots": 1, "allow_unreplayed": True, "allow_degenerate": True, "reference_timeout_s": 1.5}
    with Evaluator(config.model_copy(update=differing)) as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """A server as a process: two evaluations at once, two more may wait."""
    with ServerProcess("--slots", "2", "--queue", "2") as running:
        yield running


class ReusableMemory(HostDevice):
    """Memory of the host that is reused as that of a GPU is."""

    def __init__(self):
        self.created: list[str] = []

    def create(self, name, size, *, writable_by_peer=False):
        self.created.append(name)
        return super().create(name, size, writable_by_peer=writable_by_peer)

    def buffer_bytes(self, size):
        return -(-size // 16384) * 16384

    def can_reuse(self, held, size):
        return size <= held.size


@pytest.fixture(scope="session")
def reusable_memory() -> type[ReusableMemory]:
    return ReusableMemory


@pytest.fixture(scope="session")
def machine(config: EvaluatorConfig) -> Iterator[Machine]:
    running = Machine(config)
    yield running
    running.close()


@pytest.fixture
def session_of(machine: Machine) -> Iterator[Callable[[str], ReferenceSession]]:
    """Opens reference sessions of problems' sources, and closes them."""
    opened: list[ReferenceSession] = []

    def start(source: str) -> ReferenceSession:
        opened.append(ReferenceSession(machine, source, init_seed=7))
        return opened[-1]

    yield start
    for session in opened:
        session.close()


@pytest.fixture(scope="session")
def add_problem() -> Problem:
    return Problem.from_source(ADD_PROBLEM, "add")


@pytest.fixture(scope="session")
def add_candidate() -> str:
    return ADD_CANDIDATE


def why_no_gpu() -> str:
    """Return why nothing can be judged on a GPU here, or nothing where it can."""
    try:
        count = _native.device_count()
    except _native.NativeError as error:
        return f"needs an NVIDIA GPU: {error.operation} failed"
    if not count:
        return "needs an NVIDIA GPU: the driver sees none"
    return "" if torch.cuda.is_available() else "needs a build of torch for CUDA"


@pytest.fixture(scope="session")
def gpu() -> "_native.Device":
    """The first GPU; a test that asks for it is skipped where there is none."""
    if why := why_no_gpu():
        pytest.skip(why)
    return _native.Device.open(0)
