"""Errors of recording and replaying in a worker, for any kernel language."""


class DetachedError(RuntimeError):
    """Host code requests something that only a device has."""


class UnsupportedFeatureError(RuntimeError):
    """Host code uses a GPU feature that no replay can repeat; the message says what to write instead."""


class UnsupportedDtypeError(RuntimeError):
    """A kernel or a tensor uses a dtype that the interpreter does not compute correctly."""


class IllegalAccessError(RuntimeError):
    """A kernel loads or stores outside all of its tensors."""


class InputMutationError(RuntimeError):
    """A kernel or an operator writes to an input or a parameter."""


class MemorylessError(RuntimeError):
    """Host code uses a tensor on a device that stores no elements."""


class BooleanBytesError(RuntimeError):
    """Host code casts booleans, some of which hold a byte other than 0 and 1."""


def behind_end(distance: int, name: str) -> str:
    """Describe an address `distance` bytes past a tensor; 0 is the first byte past it."""
    return f"{f'{distance} bytes' if distance > 0 else 'right'} behind the end of {name}"
