"""Problems in our own form, made of a definition and its workloads.

The problem is the definition's reference with generated code after it: a `Model` that calls `run`, a `get_inputs` over
constants, and `WORKLOADS` with each workload's values of these. A constant that kernels may rely on is used by `Model`
too, so that hidden shapes leave it alone: the definition's constants, and the variable axes wherever a constraint or
stored data depends on them.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.traces import random_inputs
from warpsmith.evaluator.traces.files import wrong
from warpsmith.evaluator.traces.schema import (
    RUN,
    ConstAxis,
    CustomInput,
    Definition,
    SafetensorsInput,
    ScalarInput,
    Tensor,
    Workload,
)
from warpsmith.evaluator.traces.shapes import with_names
from warpsmith.evaluator.traces.stored_tensors import embedded

FormatName = Literal["flashinfer", "sol"]
RESERVED: Final = ("Model", "ModelNew", "get_inputs", "get_init_inputs", "WORKLOADS")
_IMPORTS: Final = "\n\nimport torch\nimport torch.nn as nn\n"
_STORED: Final = """
import base64
import zlib


def _stored(text, dtype, shape):
    data = bytearray(zlib.decompress(base64.b64decode(text)))
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)
"""


@dataclass(frozen=True)
class PlacedWorkload:
    """A workload with the place it was read from, for errors."""

    workload: Workload
    where: str


def problem_of(
    definition: Definition,
    workloads: Sequence[PlacedWorkload],
    *,
    format: FormatName,
    roots: Sequence[Path] = (),
    where: str = "",
) -> Problem:
    """Return the problem of a definition with workloads of their UUIDs.

    Args:
        definition: what is to be computed.
        workloads: its input sets, at least one.
        format: whose rules random inputs follow.
        roots: folders that paths of tensor files are relative to.
        where: the definition's file, for errors.

    Raises:
        TraceFormatError: a workload lacks an axis or has one of another definition, gives an input in a way that does
            not fit, or its tensor file is missing or another; two workloads have one UUID; the reference defines a
            name of the generated code.
    """
    if not workloads:
        raise wrong(where, "", f"definition {definition.name} has no workload")
    source = _Generated(definition, tuple(workloads), format, tuple(roots), where).source()
    try:
        return Problem(definition.name, source, source_id=f"{format}/{definition.name}")
    except BadProblemError as error:
        raise wrong(where, "reference", error.message.rstrip(".")) from error


@dataclass(frozen=True)
class _Generated:
    definition: Definition
    workloads: tuple[PlacedWorkload, ...]
    format: FormatName
    roots: tuple[Path, ...]
    where: str

    def source(self) -> str:
        values = self._values()
        constants = {**self._const_axes(), **next(iter(values.values()))}
        self._check_names(constants)
        assigned = "\n".join(f"{name} = {value!r}" for name, value in constants.items())
        stored = _STORED if any(SafetensorsInput in self._kinds(name) for name in self.definition.inputs) else ""
        return (
            f"{self.definition.reference.rstrip()}\n{_IMPORTS}\n{assigned}\n"
            f"WORKLOADS = {values!r}\n{stored}{self._model()}{self._get_inputs()}"
        )

    def _values(self) -> dict[str, dict[str, object]]:
        """Return each workload's values of the constants that it sets, by UUID."""
        found: dict[str, dict[str, object]] = {}
        for one in self.workloads:
            if one.workload.uuid in found:
                raise wrong(one.where, "uuid", f"{one.workload.uuid} is the UUID of another workload too")
            found[one.workload.uuid] = self._values_of(one)
        return found

    def _values_of(self, one: PlacedWorkload) -> dict[str, object]:
        workload, definition = one.workload, self.definition
        try:
            sizes = definition.sizes(workload.axes)
        except ValueError as error:
            raise wrong(one.where, "", str(error)) from error
        if unknown := workload.inputs.keys() - definition.inputs.keys():
            raise wrong(one.where, f"inputs.{min(unknown)}", f"definition {definition.name} has no such input")
        self._check_custom(one)
        values: dict[str, object] = {_axis(name): workload.axes[name] for name in workload.axes}
        for name, tensor in definition.inputs.items():
            if self._kinds(name) & {ScalarInput, SafetensorsInput}:
                values[_input(name)] = self._value(name, tensor, one, sizes)
        return values

    def _value(self, name: str, tensor: Tensor, one: PlacedWorkload, sizes: dict[str, int]) -> object:
        """Return the value of an input's constant: a number, an embedded tensor, or None where it is drawn."""
        field = f"inputs.{name}"
        match one.workload.kind_of(name):
            case ScalarInput(value=value):
                if tensor.shape is not None:
                    raise wrong(one.where, field, "a number is given for an input that has a shape")
                return value
            case SafetensorsInput() as given:
                shape = self.definition.shape(tensor, sizes)
                return embedded(given, tensor, shape, self.roots, f"{one.where}: field {field}")
            case _:
                return None

    def _check_custom(self, one: PlacedWorkload) -> None:
        """Refuse inputs of the definition's own function where it has none, or where only some workloads have them."""
        for name in self.definition.inputs:
            if not isinstance(one.workload.kind_of(name), CustomInput):
                continue
            if self.definition.custom_inputs_entrypoint is None:
                message = "type is custom, but the definition has no custom_inputs_entrypoint"
                raise wrong(one.where, f"inputs.{name}", message)
            if len(self._kinds(name)) > 1:
                message = "type is custom here and another in another workload of the definition"
                raise wrong(one.where, f"inputs.{name}", message)

    def _kinds(self, name: str) -> set[type]:
        """Return the ways in which workloads give an input."""
        return {type(one.workload.kind_of(name)) for one in self.workloads}

    def _const_axes(self) -> dict[str, object]:
        """Return the constants that no workload sets: axes, and sizes that a shape has as numbers."""
        tensors = (*self.definition.inputs.values(), *self.definition.outputs.values())
        sides = {side for tensor in tensors for side in tensor.shape or () if side not in self.definition.axes}
        axes = {_axis(name): one.value for name, one in self.definition.axes.items() if isinstance(one, ConstAxis)}
        return {**axes, **{_axis(side): int(side) for side in sorted(sides)}}

    def _check_names(self, constants: dict[str, object]) -> None:
        if both := {"self", RUN} & self.definition.inputs.keys():
            raise wrong(self.where, f"inputs.{min(both)}", "an input cannot have this name")
        taken = {*RESERVED, *constants, "_stored"}
        for node in parse(self.definition.reference).body:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names = {name}
                case ast.Assign(targets=targets):
                    names = {one.id for one in targets if isinstance(one, ast.Name)}
                case _:
                    continue
            if both := names & taken:
                raise wrong(self.where, "reference", f"it defines {min(both)}, which the problem's own code defines")

    def _model(self) -> str:
        definition = self.definition
        parameters = ", ".join(definition.inputs)
        fixed = self._fixed()
        kept = f"    FIXED = [{', '.join(fixed)}]\n\n" if fixed else ""
        return (
            f"\n\nclass Model(nn.Module):\n{kept}    def forward(self, {parameters}):\n"
            f"        found = run({parameters})\n"
            f"        if isinstance(found, dict):\n"
            f"            found = tuple(found[name] for name in {list(definition.outputs)!r})\n"
            f"        if isinstance(found, (tuple, list)):\n"
            f"            return {'found[0]' if len(definition.outputs) == 1 else 'tuple(found)'}\n"
            f"        return found\n"
        )

    def _fixed(self) -> list[str]:
        """Return what no trial may change: constants, and the function of custom inputs for the sizes written in it."""
        definition = self.definition
        kinds = {name: self._kinds(name) for name in definition.inputs}
        fixed = [*self._const_axes(), *(_input(name) for name, ways in kinds.items() if ScalarInput in ways)]
        if definition.custom_inputs_entrypoint is not None:
            fixed.append(definition.custom_inputs_entrypoint)
        bound = definition.constraints or any(SafetensorsInput in ways for ways in kinds.values())
        return fixed + ([_axis(name) for name in self.workloads[0].workload.axes] if bound else [])

    def _get_inputs(self) -> str:
        expressions = self.definition.expressions()
        names = {name: _axis(name) for name in self.definition.axes}
        computed = "".join(f"    {_axis(name)} = {with_names(text, names)}\n" for name, text in expressions.items())
        custom = self.definition.custom_inputs_entrypoint
        if custom is not None and any(CustomInput in self._kinds(name) for name in self.definition.inputs):
            scalars = [name for name in self.definition.inputs if ScalarInput in self._kinds(name)]
            given = {**{name: _axis(name) for name in self.definition.axes}, **{name: _input(name) for name in scalars}}
            pairs = ", ".join(f"{name!r}: {constant}" for name, constant in given.items())
            computed += f"    made = {custom}({{{pairs}}}, torch.empty(0).device)\n"
        rows = "".join(f"        {self._input(name, tensor)},\n" for name, tensor in self.definition.inputs.items())
        return f"\n\ndef get_inputs():\n{computed}    return [\n{rows}    ]\n"

    def _input(self, name: str, tensor: Tensor) -> str:
        """Return the expression of one input; one that workloads give in several ways chooses by its constant."""
        sides = [_axis(axis) for axis in tensor.shape or ()]
        shape = f"({', '.join(sides)}{',' * (len(sides) == 1)})"
        ways = self._kinds(name)
        if CustomInput in ways:
            return f"made[{name!r}]"
        drawn = self._drawn(name, tensor, shape)
        if ScalarInput in ways:
            given = _input(name)
        elif SafetensorsInput in ways:
            given = f"_stored({_input(name)}, torch.{tensor.dtype}, {shape})"
        else:
            return drawn
        return given if len(ways) == 1 else f"{given} if {_input(name)} is not None else {drawn}"

    def _drawn(self, name: str, tensor: Tensor, shape: str) -> str:
        if tensor.shape is None:
            return f"{random_inputs.plain(tensor, '()')}.item()"
        if name == "probs" and self.definition.op_type == "sampling":
            return f"torch.softmax({random_inputs.plain(tensor, shape)}, dim=-1)"
        if self.format == "sol":
            return random_inputs.by_name(name, tensor, shape)
        return random_inputs.plain(tensor, shape)


def _axis(name: str) -> str:
    return f"AXIS_{name}"


def _input(name: str) -> str:
    return f"INPUT_{name}"
