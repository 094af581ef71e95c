"""Which torch operators host code may call besides its kernels: a setting's policy, and the written list. Torch-free.

Host code that calls one of them computes nothing itself: the call is recorded, and a player repeats it with its own
torch, on contents that host code never sees.
"""

from typing import Any, Final, Literal, get_args

from warpsmith.evaluator.errors import WireError

OperatorPolicy = Literal["none", "library", "any"]
POLICIES: Final[tuple[str, ...]] = get_args(OperatorPolicy)
POLICY_HELP: Final = (
    "What forward may compute with torch besides its kernels: nothing (none), listed operators of libraries such as "
    "convolutions, matrix products, attention, FFT and sorting (library), or every operator that can be replayed (any)."
)


def _listed(names: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names.split())


FAMILIES: Final[dict[str, frozenset[str]]] = {
    "convolutions": _listed("convolution"),
    "matrix products": _listed("mm bmm mv dot addmm baddbmm addmv matmul linear"),
    "attention": _listed("scaled_dot_product_attention"),
    "normalisations": _listed("layer_norm rms_norm group_norm batch_norm instance_norm"),
    "pooling": _listed("""
        max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d
        avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d
    """),
    "FFT": _listed("_fft_r2c _fft_c2r _fft_c2c"),
    "sorting": _listed("sort sort.stable topk"),
}
"""The list, by family; names as torch's, with the overload."""
LISTED: Final = frozenset().union(*FAMILIES.values())

DROPOUT: Final[dict[str, int]] = {"aten.scaled_dot_product_attention.default": 4}
"""Listed operators that can draw random numbers, with the position of the argument that must be 0."""
UPDATES: Final[dict[str, tuple[int, tuple[int, ...]]]] = {
    "aten.batch_norm.default": (5, (3, 4)),
    "aten.instance_norm.default": (5, (3, 4)),
}
"""Operators that write to arguments if a flag argument is true, which their schema does not say: the flag's
position, and those of what is written."""

ALLOWED_BY: Final[dict[OperatorPolicy, str]] = {
    "none": 'operators = "none": torch may not compute at all',
    "library": f'operators = "library": beside kernels torch may compute {", ".join(FAMILIES)}, and nothing else',
    "any": 'operators = "any": torch may compute with every operator whose result and memory accesses follow from '
    "shapes alone, without random numbers",
}
"""What each policy allows, for messages and prompts."""


def policy_of(text: str) -> OperatorPolicy:
    """Return a policy that came in a message.

    Raises:
        WireError: there is no policy of that name.
    """
    for policy in POLICIES:
        if policy == text:
            return policy  # type: ignore[return-value]
    raise WireError(f"{text[:40]!r} is not a policy of operators; expected one of {', '.join(POLICIES)}.")


def event_name(event: Any) -> str | None:
    """Return the operator that an event of a recording calls; None for any other event."""
    match event:
        case ["operator", str(name), *_]:
            return name
        case _:
            return None


def written_arguments(name: str, arguments: list[Any]) -> list[Any]:
    """Return the arguments that a recorded call writes to."""
    if name not in UPDATES:
        return []
    flag, places = UPDATES[name]
    updates = len(arguments) > flag and arguments[flag] != ["value", False]
    return [arguments[place] for place in places if place < len(arguments)] if updates else []
