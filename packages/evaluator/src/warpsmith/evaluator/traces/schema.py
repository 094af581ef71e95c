"""The documents of FlashInfer-trace and SOL-ExecBench: definition, workload, solution, trace.

SOL-ExecBench's are FlashInfer-trace's with more: axes that are expressions, inputs made by the definition's own code,
tolerances, several languages. One schema reads both; what only one has is optional here. Fields that are not named are
kept where a document is written again (`Workload.document`) and ignored elsewhere.
"""

import ast
import keyword
import math
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, model_validator

from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.traces.shapes import names_in, value_of

MOST_AXES: Final = 256
RUN: Final = "run"
"""The function of a definition's reference."""
STORED_DTYPES: Final = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "bool": "BOOL",
}  # fmt: skip
"""The dtypes that can be judged, with their names in safetensors."""
OTHER_DTYPES: Final = ("float4_e2m1", "float4_e2m1fn_x2")
"""Dtypes of the formats that torch cannot compute with, so that no reference is judged in them."""

OF_SOL_ALONE: Final = ("float64", "float4_e2m1fn_x2")
"""Dtypes that only SOL-ExecBench has."""


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not empty was expected")
    return text


def _identifier(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError(f"{text!r} is not a Python name")
    return text


def _finite(value: bool | int | float) -> bool | int | float:
    if not math.isfinite(value):
        raise ValueError("a finite number was expected")
    return value


Text = Annotated[str, AfterValidator(_not_empty)]
Name = Annotated[str, AfterValidator(_identifier)]
"""A name of an axis or a tensor: a parameter of `run`, so a name of Python."""
Size = Annotated[int, Field(ge=0, le=1 << 40, strict=True)]
Scalar = Annotated[StrictBool | StrictInt | StrictFloat, AfterValidator(_finite)]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ConstAxis(_Document):
    """A size that never changes, so that a kernel may rely on it."""

    type: Literal["const"]
    value: Size


class VarAxis(_Document):
    """A size that each workload gives."""

    type: Literal["var"]


class ExprAxis(_Document):
    """A size computed from others (SOL-ExecBench)."""

    type: Literal["expr"]
    expression: Text


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


class Tensor(_Document):
    """One input or output: names of axes (SOL-ExecBench: or numbers) as shape, None for a number."""

    shape: list[Text] | None
    dtype: Text
    description: str | None = None


class Definition(_Document):
    """What is to be computed: axes, inputs, outputs, and a reference in PyTorch."""

    name: Text
    op_type: Text | None = None
    axes: dict[Name, Axis] = Field(max_length=MOST_AXES)
    inputs: dict[Name, Tensor] = Field(min_length=1)
    outputs: dict[Name, Tensor] = Field(min_length=1)
    reference: Text
    constraints: list[Text] | None = None
    custom_inputs_entrypoint: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if both := self.inputs.keys() & self.outputs.keys():
            raise ValueError(f"{sorted(both)[0]} is an input and an output; names must differ")
        for group, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, tensor in tensors.items():
                self._check_tensor(f"{group}.{name}", tensor)
        self._check_expressions()
        self._check_reference()
        return self

    def _check_tensor(self, place: str, tensor: Tensor) -> None:
        if tensor.dtype not in (*STORED_DTYPES, *OTHER_DTYPES):
            known = ", ".join((*STORED_DTYPES, *OTHER_DTYPES))
            raise ValueError(f"{place}.dtype is {tensor.dtype!r}; one of {known} was expected")
        for axis in tensor.shape or ():
            if axis not in self.axes and not axis.isdecimal():
                raise ValueError(f"{place}.shape names {axis!r}, which the definition lacks")

    def _check_expressions(self) -> None:
        for name, axis in self.axes.items():
            unknown = names_in(axis.expression) - self.axes.keys() if isinstance(axis, ExprAxis) else ()
            if unknown:
                raise ValueError(f"axes.{name}.expression names {min(unknown)!r}, which the definition lacks")
        try:
            self.expressions()
        except CycleError as error:
            raise ValueError(f"axes depend on one another: {' -> '.join(error.args[1])}") from error

    def _check_reference(self) -> None:
        try:
            functions = {one.name: one for one in parse(self.reference).body if isinstance(one, ast.FunctionDef)}
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"reference is not valid Python: {error}") from error
        for wanted in filter(None, (RUN, self.custom_inputs_entrypoint)):
            if wanted not in functions:
                raise ValueError(f"reference defines no function {wanted} at its top level")
        taken = functions[RUN].args
        names = [one.arg for one in taken.posonlyargs + taken.args]
        if taken.vararg is None and len(names) != len(self.inputs):
            raise ValueError(f"run takes {', '.join(names) or 'nothing'}; inputs are {', '.join(self.inputs)}")

    @property
    def obstacle(self) -> str | None:
        """Why no candidate can be judged on it, though it is well-formed; None if one can."""
        tensors = {**self.inputs, **self.outputs}
        packed = [name for name, tensor in tensors.items() if tensor.dtype in OTHER_DTYPES]
        return f"{packed[0]} is {tensors[packed[0]].dtype}" if packed else None

    def expressions(self) -> dict[str, str]:
        """Return the axes that are expressions, each after those that it depends on; CycleError if that is a circle."""
        found = {name: axis.expression for name, axis in self.axes.items() if isinstance(axis, ExprAxis)}
        order = TopologicalSorter({name: names_in(text) for name, text in found.items()}).static_order()
        return {name: found[name] for name in order if name in found}

    def sizes(self, given: dict[str, int]) -> dict[str, int]:
        """Return the value of each axis with those that a workload gives.

        Raises:
            ValueError: one is missing, is none of the definition's variables, or an expression has no size as value.
        """
        for name in given:
            if not isinstance(self.axes.get(name), VarAxis):
                raise ValueError(f"axes.{name} is not a variable axis of definition {self.name}")
        sizes = {name: axis.value for name, axis in self.axes.items() if isinstance(axis, ConstAxis)} | given
        for name, axis in self.axes.items():
            if isinstance(axis, VarAxis) and name not in given:
                raise ValueError(f"axes.{name} is missing: definition {self.name} has it as a variable axis")
        for name, text in self.expressions().items():
            sizes[name] = value_of(text, sizes)
        return sizes

    def shape(self, tensor: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
        """Return a tensor's shape with the values of axes; empty for a number."""
        return tuple(sizes[axis] if axis in sizes else int(axis) for axis in tensor.shape or ())


class FlashInferDefinition(Definition):
    """A definition by FlashInfer-trace's own rules, which have less than SOL-ExecBench's and ask for more."""

    op_type: Text
    axes: dict[Name, Annotated[ConstAxis | VarAxis, Field(discriminator="type")]] = Field(max_length=MOST_AXES)  # type: ignore[assignment]
    tags: list[Text] | None = None

    @model_validator(mode="after")
    def _check_own_rules(self) -> Self:
        for group, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, tensor in tensors.items():
                if tensor.dtype in OF_SOL_ALONE:
                    raise ValueError(f"{group}.{name}.dtype is {tensor.dtype!r}, which FlashInfer-trace does not have")
                for axis in tensor.shape or ():
                    if axis not in self.axes:
                        raise ValueError(f"{group}.{name}.shape names {axis!r}, which the definition lacks")
        for text in self.constraints or ():
            try:
                parse(text.strip(), "eval")
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                raise ValueError(f"the constraint {text!r} is not a Python expression: {error}") from error
        return self


class RandomInput(_Document):
    """Drawn again each time."""

    type: Literal["random"] = "random"


class ScalarInput(_Document):
    """A number."""

    type: Literal["scalar"]
    value: Scalar


class SafetensorsInput(_Document):
    """A tensor of a file."""

    type: Literal["safetensors"]
    path: Text
    tensor_key: Text


class CustomInput(_Document):
    """Made by the definition's `custom_inputs_entrypoint` (SOL-ExecBench)."""

    type: Literal["custom"]


Input = Annotated[RandomInput | ScalarInput | SafetensorsInput | CustomInput, Field(discriminator="type")]


class Workload(_Document):
    """One input set of a definition.

    Attributes:
        document: what was read, with the fields that the schema does not name.
    """

    uuid: Text
    axes: dict[str, Size]
    inputs: dict[str, Input]
    document: dict[str, Any] = Field(default_factory=dict, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _keep(cls, given: Any) -> Any:
        return given | {"document": given} if isinstance(given, dict) else given

    def kind_of(self, name: str) -> Input:
        """Return how an input is made; one that is not listed is random, as in the benchmarks' own programs."""
        return self.inputs.get(name, RandomInput())


class Source(_Document):
    """A file of a solution."""

    path: Text
    content: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"path {self.path!r} leads out of the solution; a relative one was expected")
        return self


class Spec(_Document):
    """How a solution is built and called. FlashInfer-trace has `language`, SOL-ExecBench `languages`."""

    language: Text | None = None
    languages: list[Text] = []
    entry_point: Text
    destination_passing_style: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.language is None and not self.languages:
            raise ValueError("language (or languages) is missing")
        if self.entry_point.count("::") != 1 or not self.entry_function.isidentifier():
            raise ValueError(f"entry_point is {self.entry_point!r}; FILE::FUNCTION was expected")
        return self

    @property
    def entry_file(self) -> str:
        return self.entry_point.split("::")[0]

    @property
    def entry_function(self) -> str:
        return self.entry_point.split("::")[-1]

    @property
    def all_languages(self) -> tuple[str, ...]:
        return tuple(self.languages) or (self.language or "",)


class Solution(_Document):
    """An implementation of a definition."""

    name: Text
    definition: Text
    author: Text
    spec: Spec
    sources: list[Source] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        paths = [one.path for one in self.sources]
        if len(set(paths)) < len(paths):
            raise ValueError("two sources have the same path")
        if self.spec.entry_file not in paths:
            raise ValueError(f"spec.entry_point names the file {self.spec.entry_file!r}, which is none of the sources")
        return self


class WorkloadTrace(_Document):
    """A line of FlashInfer-trace's workload files: a trace without solution and evaluation."""

    definition: Text
    workload: Workload
    solution: None = None
    evaluation: None = None


Status = Literal[
    "PASSED", "INVALID_REFERENCE", "INCORRECT_SHAPE", "INCORRECT_NUMERICAL", "INCORRECT_DTYPE", "RUNTIME_ERROR",
    "COMPILE_ERROR", "TIMEOUT", "REWARD_HACK",
]  # fmt: skip
"""Both formats' statuses; INVALID_REFERENCE and REWARD_HACK are SOL-ExecBench's alone."""
Measure = Annotated[float, Field(ge=0)] | Literal["NaN"]


class Correctness(_Document):
    """How far outputs are from the reference's; `NaN` for what was not measured."""

    max_relative_error: Measure = "NaN"
    max_absolute_error: Measure = "NaN"
    extra: dict[str, Any] | None = None


class Performance(_Document):
    """Times in milliseconds, and their ratio."""

    latency_ms: Annotated[float, Field(ge=0)]
    reference_latency_ms: Annotated[float, Field(ge=0)]
    speedup_factor: Annotated[float, Field(ge=0)]


class Environment(_Document):
    """Where it was judged: the device, and the versions of libraries."""

    hardware: Text
    libs: dict[str, str] = {}


class Evaluation(_Document):
    """The result of a solution on a workload; `performance` is None where nothing was timed."""

    status: Status
    environment: Environment
    timestamp: Text
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None


class Trace(_Document):
    """A solution's result on one workload of a definition."""

    definition: Text
    workload: Workload
    solution: Text
    evaluation: Evaluation

    def to_document(self) -> dict[str, Any]:
        """Return the trace as it is written, with the workload as it was read."""
        return self.model_dump(mode="json") | {"workload": self.workload.document}
