"""Finds this machine's GPUs, and whether candidates can be judged on them."""

from dataclasses import dataclass

from warpsmith.evaluator import _native


@dataclass(frozen=True)
class Gpu:
    """One GPU; `number` is what `--gpu` takes."""

    number: int
    name: str
    arch: str
    memory_gib: float


def find() -> tuple[list[Gpu], str]:
    """Return the GPUs that the driver shows, and the obstacle to judging on them (empty if none).

    It creates a context on each, which takes tenths of a second.
    """
    try:
        found = [_described(number) for number in range(_native.device_count())]
    except _native.NativeError as error:
        return [], f"{error.message.rstrip('.')}. {error.remedy}".strip()
    return found, _obstacle() if found else "The driver shows no GPU; CUDA_VISIBLE_DEVICES may hide them."


def _described(number: int) -> Gpu:
    device = _native.Device.open(number)
    return Gpu(number, device.name, f"sm_{device.arch}", round(device.total_bytes / 2**30, 1))


def _obstacle() -> str:
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build without CUDA: install a CUDA build."
    if _native.achievable_tier() == "landlock":
        return (
            "The driver creates a socket, which the tier landlock forbids: workers with a GPU need the tier "
            "namespaces. See above for what that tier lacks."
        )
    return ""
