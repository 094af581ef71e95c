"""What replaying a library call costs beyond torch's own call: convolutions of each kind, alone on a GPU.

A player writes a result to the recording's memory. Where no form of the operator writes there, the result is copied,
and the copy counts as the candidate's time. Both calls take turns between events, on the same tensors.

    python benchmarks/replayed_calls.py
"""

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from _machine import describe, need_gpu, write_result

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.cuda import CudaDevice

HERE = Path(__file__).parent
LINES, PLANES, VOLUMES = (16, 64, 65_536), (16, 64, 256, 257), (8, 32, 32, 64, 65)
"""Shapes of the inputs."""
CASES: Final[dict[str, tuple[tuple[int, ...], int, dict[str, Any]]]] = {
    "1d": (LINES, 3, {}),
    "1d strided, dilated": (LINES, 3, {"stride": 3, "dilation": 4}),
    "1d transposed": (LINES, 3, {"transposed": True}),
    "1d transposed, dilated": (LINES, 5, {"transposed": True, "dilation": 3}),
    "1d transposed, strided, padded": (LINES, 3, {"transposed": True, "stride": 2, "padding": 1, "dilation": 2}),
    "2d": (PLANES, 3, {}),
    "2d strided, padded": (PLANES, 5, {"stride": 2, "padding": 2}),
    "2d transposed": (PLANES, 3, {"transposed": True}),
    "2d transposed, strided": (PLANES, 4, {"transposed": True, "stride": 2, "padding": 1}),
    "3d": (VOLUMES, 3, {}),
    "3d transposed": (VOLUMES, 3, {"transposed": True}),
}
CHANNELS: Final = 64
"""Channels of the results."""
WARM_UP: Final = 3


def arguments_of(shape: tuple[int, ...], side: int, options: dict[str, Any]) -> list[Any]:
    """Return the arguments of `aten.convolution`, in the schema's order, on the GPU."""
    axes, channels = len(shape) - 2, shape[1]
    transposed = bool(options.get("transposed"))
    first = (channels, CHANNELS) if transposed else (CHANNELS, channels)
    tensors = [torch.randn(form, device="cuda") for form in (shape, (*first, *[side] * axes), (CHANNELS,))]
    lists = [[int(options.get(name, plain))] * axes for name, plain in (("stride", 1), ("padding", 0), ("dilation", 1))]
    return [*tensors, *lists, transposed, [0] * axes, 1]


def replayed(device: "CudaDevice", given: list[Any], into: torch.Tensor) -> Callable[[], None]:
    """Return the call as a player repeats it, with its result in `into`, which has a region of the device."""
    from warpsmith.evaluator.devices.cuda_placement import Placement
    from warpsmith.evaluator.recordings import library_calls

    tensors = {"result": into}

    def name(tensor: torch.Tensor) -> list[Any]:
        tensors[str(len(tensors))] = tensor
        return ["tensor", str(len(tensors) - 1)]

    described = [library_calls.described(one, name) for one in given]
    return library_calls.repeated(
        library_calls.CONVOLUTION,
        described,
        {},
        [["tensor", "result"]],
        lambda part: tensors[part[1]],
        placement=lambda tensor: Placement(device, tensor),
    )


def milliseconds(call: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # Else the host's time to enqueue the call would lie between the events.
    torch.cuda._sleep(1_000_000)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def measure(device: "CudaDevice", name: str, count: int) -> dict[str, Any]:
    """Return one case's times in milliseconds, and how far its result is from torch's, relative to the largest."""
    given = arguments_of(*CASES[name])
    plain: Callable[[], torch.Tensor] = lambda: torch.ops.aten.convolution.default(*given)  # noqa: E731
    expected = plain()
    # As in a player: torch's own allocator must not know this memory, or it would free the result twice.
    region = device.region(expected.nbytes)
    into = region.content.view(expected.dtype).view(expected.shape).fill_(float("nan"))
    call = replayed(device, given, into)
    for _ in range(WARM_UP):
        plain()
        call()
    error = float((into - expected).abs().max() / expected.abs().max())
    pairs = [(milliseconds(plain), milliseconds(call)) for _ in range(count)]
    own, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {"case": name, "torch_ms": own, "replayed_ms": ours, "ratio": ours / own, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=15, help="calls of each kind; their median is reported")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "replayed_calls.json")
    arguments = parser.parse_args()
    need_gpu()
    from warpsmith.evaluator.devices.cuda import CudaDevice

    device = CudaDevice()
    torch.backends.cudnn.allow_tf32 = False
    rows = []
    for name in CASES:
        rows.append(measure(device, name, arguments.count))
        print(rows[-1], flush=True)
    write_result(arguments.out, describe(("torch", "warpsmith-evaluator")) | {"rows": rows})


if __name__ == "__main__":
    main()
