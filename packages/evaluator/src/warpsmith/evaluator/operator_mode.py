"""The base of contexts that see every operator of torch that runs in them, and the names of operators."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context whose `__torch_dispatch__` runs in place of each operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping this for its compiler: that takes seconds, and 70 MB in every forked worker."""
        return False


def operator_name(func: Any) -> str:
    """Return an operator's name without its namespace and the underscore of a form that works in place."""
    name = str(func._schema.name)
    return name.rpartition("::")[2].rstrip("_") or name
