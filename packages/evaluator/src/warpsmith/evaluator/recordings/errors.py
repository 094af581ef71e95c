"""What recording and replaying raise in a worker, whatever language kernels are written in."""


class DetachedError(RuntimeError):
    """Host code asks for what only a device has."""


class UnsupportedDtypeError(RuntimeError):
    """A kernel or a tensor uses a dtype that the interpreter computes wrongly."""


class IllegalAccessError(RuntimeError):
    """A kernel loads or stores outside every tensor that it was given."""


class InputMutationError(RuntimeError):
    """A kernel or an operator writes to an input or a parameter."""


def behind_end(distance: int, name: str) -> str:
    """Say where an address lies that is `distance` bytes behind the last one of a tensor: 0 is the first behind it."""
    return f"{f'{distance} bytes' if distance > 0 else 'right'} behind the end of {name}"
