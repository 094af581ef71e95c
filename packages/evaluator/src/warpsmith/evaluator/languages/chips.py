"""Names of the chips that kernels are compiled for. Importable without torch."""

from typing import Final, TypeAlias

Chip: TypeAlias = int | str
"""An NVIDIA chip by its compute capability, 90 for sm_90, or an AMD chip by its name, such as `gfx942`."""

NVIDIA_CHIPS: Final = (75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
"""From Turing on. A compiler knows those of its time; of a number that is none, Triton's ends its process."""
OF_NVIDIA: Final = "sm_"
OF_AMD: Final = "gfx"
TARGET_PATTERN: Final = r"^(sm_\d{2,3}|gfx\d{1,4}[0-9a-f]{0,2})?$"
_WAVES_OF_64: Final = "gfx9"


def chip_of(target: str, default: int) -> Chip:
    """Return the chip of a target that matches TARGET_PATTERN; `default` for an empty one."""
    if not target:
        return default
    return target if target.startswith(OF_AMD) else int(target.removeprefix(OF_NVIDIA))


def chip_name(chip: Chip) -> str:
    """Return a chip's name in messages."""
    return chip if isinstance(chip, str) else f"{OF_NVIDIA}{chip}"


def is_amd(chip: Chip) -> bool:
    """Whether a chip is AMD's."""
    return isinstance(chip, str)


def lanes(chip: Chip) -> int:
    """Return the threads that execute together: a warp of 32, or of 64 on AMD's CDNA chips."""
    return 64 if isinstance(chip, str) and chip.startswith(_WAVES_OF_64) else 32
