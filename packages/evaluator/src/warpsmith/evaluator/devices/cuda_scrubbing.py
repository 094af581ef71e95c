"""Scrubs what a multiprocessor keeps between kernels: shared memory, local memory and registers.

The device clears none of them, so a kernel that reads before it writes can find what its own last call left. Between
two calls of a replay the kernels here run on every multiprocessor. They are written in PTX, since each must occupy a
whole multiprocessor, and assembled before a worker is forked, since a worker cannot execute an assembler.
"""

import subprocess
import tempfile
from functools import cache, partial
from pathlib import Path
from struct import pack
from typing import Final

import torch

from warpsmith.evaluator import _native

THREADS: Final = 1024
"""Threads of a block: the maximum."""
FRAMES: Final = tuple(1 << bits for bits in range(7, 17))
"""Bytes of local memory per thread; there is one kernel for each."""
LIVE: Final = 56
"""Registers that each thread writes; with the kernel's own, a block of THREADS threads uses all registers."""
SPAN: Final = 2000
"""Clock cycles that each block runs, so that no multiprocessor gets two blocks and another none."""
SCRUBBED: Final = "0xFFFFFFFF"
"""What shared and local memory hold afterwards: NaN as a float."""

HEAD: Final = """\
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
"""

STAY: Final = f"""\
$stay:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %begun;
  setp.lt.u64 %again, %now, {SPAN};
  @%again bra $stay;
  ret;
"""

# From the first address on: up to a kilobyte lies before what a block asked for, and a kernel can reach it.
SHARED: Final = f"""\
.visible .entry scrub_shared(.param .u32 bytes)
.maxntid {THREADS}, 1, 1
.minnctapersm 1
{{
  .reg .pred %again;
  .reg .u32 %at, %end, %to;
  .reg .u64 %begun, %now;
  mov.u64 %begun, %clock64;
  mov.u32 %to, room;
  ld.param.u32 %end, [bytes];
  add.u32 %end, %end, %to;
  mov.u32 %at, %tid.x;
  shl.b32 %at, %at, 4;
$next:
  setp.ge.u32 %again, %at, %end;
  @%again bra $stay;
  st.volatile.shared.v4.u32 [%at], {{{SCRUBBED}, {SCRUBBED}, {SCRUBBED}, {SCRUBBED}}};
  add.u32 %at, %at, {16 * THREADS};
  bra $next;
{STAY}}}
"""

# Reads back one stored value at an unpredictable place: the assembler removes stores that nothing reads.
LOCAL: Final = f"""\
.visible .entry scrub_local_{{frame}}()
.maxntid {THREADS}, 1, 1
.minnctapersm 2
{{{{
  .local .align 16 .b8 frame_{{frame}}[{{frame}}];
  .reg .pred %again;
  .reg .u32 %at, %to;
  .reg .u64 %begun, %now;
  mov.u64 %begun, %clock64;
  mov.u32 %at, 0;
$next:
  mov.u32 %to, frame_{{frame}};
  add.u32 %to, %to, %at;
  st.local.v4.u32 [%to], {{{{{SCRUBBED}, {SCRUBBED}, {SCRUBBED}, {SCRUBBED}}}}};
  add.u32 %at, %at, 16;
  setp.lt.u32 %again, %at, {{frame}};
  @%again bra $next;
  mov.u32 %at, %clock;
  and.b32 %at, %at, {{last}};
  mov.u32 %to, frame_{{frame}};
  add.u32 %to, %to, %at;
  ld.local.u32 %at, [%to];
  setp.eq.u32 %again, %at, 0;
  @%again bra $next;
{STAY}}}}}
"""


def _registers() -> str:
    """Return the PTX of the kernel that writes registers.

    Each is computed from the one before, and they are consumed in reverse order, so that all are live at once.
    """
    numbers = range(1, LIVE)
    held = "".join(f"  mad.lo.u32 %held{number}, %held{number - 1}, {2 * number + 1}, %own;\n" for number in numbers)
    used = "".join(f"  mad.lo.u32 %used, %used, %used, %held{number};\n" for number in reversed(numbers))
    return f"""\
.visible .entry scrub_registers()
.maxntid {THREADS}, 1, 1
.minnctapersm 1
{{
  .reg .pred %again;
  .reg .u32 %held<{LIVE}>, %used, %own;
  .reg .u64 %begun, %now;
  mov.u32 %own, %tid.x;
$read:
  mov.u64 %begun, %clock64;
  mov.u32 %held0, %clock;
{held}  mov.u32 %used, %held0;
{used}  setp.eq.u32 %again, %used, 0;
  @%again bra $read;
{STAY}}}
"""


def ptx() -> str:
    """Return the PTX of all scrubbing kernels."""
    return "\n".join([HEAD, SHARED, *(LOCAL.format(frame=frame, last=frame - 4) for frame in FRAMES), _registers()])


@cache
def assembled(arch: int) -> bytes:
    """Return the machine code of all scrubbing kernels; cached. Call it in a process that can execute the assembler.

    Args:
        arch: the chip, as in `Device.arch`.

    Raises:
        CalledProcessError: the assembler rejects them.
    """
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder) / "scrub.ptx", Path(folder) / "scrub.cubin"
        source.write_text(ptx(), encoding="utf-8")
        command = [get_ptxas(arch).path, f"-arch=sm_{arch}", str(source), "-o", str(code)]
        subprocess.run(command, check=True, capture_output=True)
        return code.read_bytes()


def frame_for(local_bytes: int) -> int:
    """Return the smallest frame that covers that much local memory per thread; 0 for none.

    Raises:
        ValueError: no frame is large enough.
    """
    if not local_bytes:
        return 0
    found = next((frame for frame in FRAMES if frame >= local_bytes), None)
    if found is None:
        raise ValueError(
            f"A kernel uses {local_bytes} bytes of local memory per thread; at most {FRAMES[-1]} can be scrubbed."
        )
    return found


class Scrub:
    """Scrubs a device in stream order.

    Args:
        device: the GPU.
        code: the result of `assembled` for its chip.
        local_bytes: largest local memory per thread of the kernels between two scrubs.

    Raises:
        ValueError: `local_bytes` is more than can be scrubbed.
    """

    def __init__(self, device: "_native.Device", code: bytes, local_bytes: int) -> None:
        load = partial(_native.Kernel.load, device, code)
        room, frame, blocks = device.block_shared_bytes, frame_for(local_bytes), device.multiprocessors
        # The registers come last, to scrub the other kernels' registers and reset the shared memory configuration.
        self._launches = [_launch(load("scrub_shared", room), blocks, [pack("<I", room)])]
        if frame:
            self._launches.append(_launch(load(f"scrub_local_{frame}", 0), 2 * blocks, []))
        self._launches.append(_launch(load("scrub_registers", 0), blocks, []))

    def __call__(self) -> None:
        """Enqueue the scrubbing on torch's current stream."""
        stream = torch.cuda.current_stream().cuda_stream
        for launch in self._launches:
            launch.launch(stream)


def _launch(kernel: "_native.Kernel", blocks: int, parameters: list[bytes]) -> "_native.Launch":
    return kernel.prepare((blocks, 1, 1), THREADS, 1, False, parameters)
