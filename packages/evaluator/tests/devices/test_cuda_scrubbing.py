"""The kernels that scrub a multiprocessor: they assemble for every chip, and take all that it has."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from triton.backends import nvidia

from warpsmith.evaluator.devices import cuda_scrubbing

ARCHES = (80, 90, 100)


@pytest.fixture(scope="module")
def usage(tmp_path_factory):
    """What each kernel takes on a chip, as the tool beside Triton's assembler says it."""
    tool = shutil.which("cuobjdump", path=str(Path(nvidia.__file__).parent / "bin"))
    if tool is None:
        pytest.skip("This Triton has no cuobjdump.")

    def of(arch):
        code = tmp_path_factory.mktemp("scrub") / "scrub.cubin"
        code.write_bytes(cuda_scrubbing.assembled(arch))
        said = subprocess.run([tool, "-res-usage", code], capture_output=True, text=True, check=True).stdout
        return {
            name: {what: int(number) for what, number in re.findall(r"(\w+):(\d+)", line)}
            for name, line in re.findall(r"Function (\w+):\n\s*(.*)", said)
        }

    return of


@pytest.mark.parametrize("arch", ARCHES)
def test_every_register_of_a_multiprocessor_is_taken(usage, arch):
    taken = usage(arch)
    assert taken["scrub_registers"]["REG"] * cuda_scrubbing.THREADS == 1 << 16
    assert set(taken) == {
        "scrub_shared",
        "scrub_registers",
        *(f"scrub_local_{frame}" for frame in cuda_scrubbing.FRAMES),
    }
    for frame in cuda_scrubbing.FRAMES:
        # Two blocks of a multiprocessor have all its 2048 threads, if each takes half of the registers at most.
        assert taken[f"scrub_local_{frame}"]["STACK"] == frame
        assert taken[f"scrub_local_{frame}"]["REG"] <= 32


@pytest.mark.parametrize(("local", "frame"), [(0, 0), (1, 128), (128, 128), (129, 256), (1 << 16, 1 << 16)])
def test_a_frame_covers_what_kernels_take(local, frame):
    assert cuda_scrubbing.frame_for(local) == frame


def test_more_local_memory_than_is_scrubbed_is_refused():
    with pytest.raises(ValueError, match="at most 65536"):
        cuda_scrubbing.frame_for((1 << 16) + 1)
