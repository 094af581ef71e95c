"""Changes of a problem's source at named places: a constant, a draw of `get_inputs`, a keyword argument of a call."""

import ast
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from warpsmith.evaluator.errors import DatasetError


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    old: str
    """The replaced expression, as the source has it."""
    new: str


class Constant(_Change):
    """Another value for a constant of the module.

    Attributes:
        name: the assignment's targets as the source has them: `batch_size`, `height = width` or `(D, H, W)`.
    """

    kind: Literal["constant"] = "constant"
    name: str

    def where(self) -> str:
        return self.name

    def places(self, module: ast.Module) -> Iterator[ast.expr]:
        for node in module.body:
            if isinstance(node, ast.Assign) and _targets(node) == self.name:
                yield node.value


class Draw(_Change):
    """Another function, factor included, for one draw of `get_inputs`.

    Attributes:
        index: which of the calls of `old`, in the order of the source, from 0.
    """

    kind: Literal["draw"] = "draw"
    index: int = Field(ge=0)

    def where(self) -> str:
        return f"get_inputs, draw {self.index}"

    def places(self, module: ast.Module) -> Iterator[ast.expr]:
        inputs = (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs")
        calls = [call.func for one in inputs for call in _calls(one) if ast.unparse(call.func) == self.old]
        yield from calls[self.index : self.index + 1]


class Argument(_Change):
    """Another value for a keyword argument of a call in `Model.forward`.

    Attributes:
        function: the called function, for example `torch.clamp`.
        name: the argument.
    """

    kind: Literal["argument"] = "argument"
    function: str
    name: str

    def where(self) -> str:
        return f"{self.name} of {self.function} in Model.forward"

    def places(self, module: ast.Module) -> Iterator[ast.expr]:
        models = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Model")
        methods = (node for model in models for node in model.body if isinstance(node, ast.FunctionDef))
        calls = (call for method in methods if method.name == "forward" for call in _calls(method))
        for call in calls:
            if ast.unparse(call.func) == self.function:
                yield from (given.value for given in call.keywords if given.arg == self.name)


Change = Annotated[Constant | Draw | Argument, Field(discriminator="kind")]


def changed(source: str, changes: Sequence[Change]) -> str:
    """Return `source` with each change made; all else, comments included, stays as it is.

    Raises:
        DatasetError: a place is missing or ambiguous, holds another expression, or two changes overlap.
    """
    module, data = ast.parse(source), source.encode()
    starts = _line_starts(data)
    spans = sorted((*_span(_place(change, module), starts), change.old, change.new) for change in changes)
    for (_, end, *_), (start, *_) in pairwise(spans):
        if start < end:
            raise DatasetError("Two changes of one problem overlap.", "Make them one change.")
    for start, end, old, new in reversed(spans):
        if data[start:end].decode() != old:
            raise DatasetError(
                f"The source has {data[start:end].decode()[:80]!r} where {old!r} was expected.",
                "Correct the change, or name the source that it was made for.",
            )
        data = data[:start] + new.encode() + data[end:]
    result = data.decode()
    ast.parse(result)
    return result


def _place(change: Change, module: ast.Module) -> ast.expr:
    found = list(change.places(module))
    if len(found) != 1:
        raise DatasetError(
            f"The source has {len(found)} places {change.where()!r}; one was expected.",
            "Correct the change, or name the source that it was made for.",
        )
    return found[0]


def _targets(node: ast.Assign) -> str:
    return " = ".join(ast.unparse(target) for target in node.targets)


def _calls(function: ast.FunctionDef) -> list[ast.Call]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _line_starts(data: bytes) -> list[int]:
    return [0, *accumulate(len(line) for line in data.splitlines(keepends=True))]


def _span(node: ast.expr, starts: Sequence[int]) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
