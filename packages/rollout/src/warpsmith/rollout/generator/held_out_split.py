"""Which problems are held out: compositions of operations, chosen by their hash."""

import hashlib
from typing import Literal

Split = Literal["train", "held_out"]

_HELD_OUT_SHARE = 5
"""One composition in this many is held out."""


def split_of(composition: str) -> Split:
    """Return the split a composition belongs to, by its hash.

    Compositions of a single operation belong to `train`: training sees every operation, and what is held out are
    combinations of operations.
    """
    if _is_atomic(composition):
        return "train"
    digest = hashlib.sha256(composition.encode()).digest()
    return "held_out" if digest[0] % _HELD_OUT_SHARE == 0 else "train"


def _is_atomic(composition: str) -> bool:
    bare = composition.removesuffix("()")
    return "+" not in bare and "(" not in bare
