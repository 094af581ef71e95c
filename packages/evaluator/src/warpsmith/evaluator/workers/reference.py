"""The reference worker: runs a problem's own code, and passes inputs and expected outputs to the judge.

It uses memory that no candidate ever maps. Its problem may be as hostile as a candidate, but can only spoil its own
evaluations.
"""

import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

from warpsmith.evaluator import _native
from warpsmith.evaluator.baselines import EAGER
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.correctness.compare_fp8 import is_fp8
from warpsmith.evaluator.correctness.computed_precision import Precision, PrecisionFinder
from warpsmith.evaluator.correctness.plain_forms import PlainFormFinder, PlainForms, has_textbook_form
from warpsmith.evaluator.correctness.rounding_noise import FunctionFinder, RoundingNoise
from warpsmith.evaluator.correctness.spread import Changes, Perturbation, distance
from warpsmith.evaluator.correctness.steady_steps import SteadySteps, StepFinder, Steps, WideNumbers
from warpsmith.evaluator.correctness.tied_orders import TiedOrder
from warpsmith.evaluator.devices import precision, records, tensor_views
from warpsmith.evaluator.devices.base import Device, OnDevice
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.ipc.tensor_slots import FLOATING
from warpsmith.evaluator.recordings import module_state, outputs, sharing, side_effects
from warpsmith.evaluator.reference import named_sizes
from warpsmith.evaluator.reference.accidental_sizes import (
    AccidentalSizesError,
    PartsObserver,
    Run,
    RunObserver,
    is_accident,
)
from warpsmith.evaluator.reference.ambiguity import AmbiguityFinder
from warpsmith.evaluator.reference.bounds_of_draws import DrawBounds
from warpsmith.evaluator.reference.draw_plan import MOST_SITES, PLAINLY, DrawPlan
from warpsmith.evaluator.reference.draw_sites import Catch
from warpsmith.evaluator.reference.named_sizes import InputSizes
from warpsmith.evaluator.reference.scalar_draws import Blocks
from warpsmith.evaluator.reference.telling_numbers import LARGEST_NUMBER
from warpsmith.evaluator.reference.unnamed_sizes import Sides, held_by, sides_among
from warpsmith.evaluator.timing.worker_rounds import Call, Rounds
from warpsmith.evaluator.workers import calling, gpu_stand_in, operation_count
from warpsmith.evaluator.workers.foreign_code import execute, failure
from warpsmith.evaluator.workers.loan import loans_of

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

MODULE_NAME: Final = "problem"
EXACT_COST: Final = 4.0
"""Estimated duration of a run in fp64, with its copy of the parameters, as a multiple of the own run's."""
ANY_INDEX: Final = 2.0**40
"""Distance beyond that of any two indices."""
HALVES: Final = frozenset({"float16", "bfloat16"})
HALF_BYTES: Final = 2
TABLE_RUNS: Final = 6
TABLE_S: Final = 1.0
"""How many constructors run with other roundings, and seconds for them: a single one errs little on some numbers."""
MOST_TABLE_ERROR: Final = 2.0**-8
"""Largest error of a table, relative to its largest number: sines of angles of about ten thousand reach it."""
ROUNDING_PAIRS: Final = 2
"""Draws of changes for runs that round what is computed from integers, four runs each: both signs, with and without
alternation. These changes are a few roundings, so that nothing hides two that cancel."""
TIE_PAIRS: Final = 4
"""Pairs of runs for integers in an answer to half-precision inputs, where a few percent of numbers are tied."""
HALF_PAIRS: Final = 5
"""Pairs of perturbed runs if inputs and answer have half precision: a kernel that rounds an input once more, such as a
scaled query, errs as much as one such run, and the larger of two is sometimes small by chance."""
STEP: Final = 1e-3
STEP_SPREADS: Final = 16.0
"""Relative distance, and multiple of the spread, beyond which an fp64 run took the other side of a step."""
COMPILED_CALLS: Final = 3
"""Calls of a compiled reference before it is timed: the first compiles, and kernels are tuned at their first launch."""
MOST_PAIRED_TWICE: Final = 1 << 20
"""Maximum elements of inputs and parameters for more than one pair of perturbed runs."""


def prepare() -> None:
    """Do one-time work that the first reference would otherwise pay for; called in the zygote."""
    layer = nn.Linear(4, 4)
    layer.double()(torch.zeros(2, 4, dtype=torch.float64))
    Perturbation(Changes(torch.device("cpu")), 0, 4, tf32=False)(torch.rand(2, 4))


class _Budget:
    """Time that a reference can take beyond its own run for one input set."""

    def __init__(self, seconds: float, own: float) -> None:
        self._own = own
        self._end = time.monotonic() + seconds

    def allows(self, runs: float) -> bool:
        """Whether that many runs, each as long as the own run, fit into the remaining time."""
        return time.monotonic() + runs * self._own <= self._end


@dataclass
class _AnswerTensor:
    """One tensor of an answer: from the own run, from the fp64 run, and the distance of perturbed runs."""

    own: torch.Tensor
    precision: Precision
    exact: torch.Tensor | None = None
    spread: torch.Tensor | None = None

    @property
    def computed(self) -> str:
        """The name of the dtype that its numbers were computed in, if that is narrower than its own; else empty."""
        return "" if self.precision.last == self.own.dtype else tensor_views.NAMES[self.precision.last]


class Reference:
    """One problem: its model on the judge's state arena, its inputs, and its answers in its own dtype and in fp64."""

    def __init__(
        self,
        source: str,
        path: Path,
        seed: int,
        device: Device,
        config: EvaluatorConfig,
        *,
        as_on_gpu: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.device = device
        # Only the problem's own code runs within it: what is computed beside that calls torch thousands of times.
        self._as_on_gpu = as_on_gpu
        self.path = path
        self.config = config
        self.memory = Mappings(device)
        # Tensors that a problem makes without naming a device are made on the judging device: making a large input on
        # the host would take most of an evaluation.
        with device.as_default(), as_on_gpu():
            self.namespace = execute(source, path, MODULE_NAME)
            self.sizes = InputSizes(source, self.namespace, path)
            device.seed(seed)
            maker = self.namespace.get("get_init_inputs", list)
            self.init = list(calling.init_arguments(maker(), self._model_class()))
            device.seed(seed)
            self.model: nn.Module = self._construct().to(device.torch_device)
            self.tables = self._tables(seed + 1)
        self._held_numbers = _numbers_held(self.model)
        self._held_integers = held_by(self.sizes.tree, self.sizes.fixed, self.model, self.init)
        self.other_names = module_state.aliases(self.model)
        buffers = self._named_once(module_state.buffers(self.model))
        self.initial_buffers = {name: buffer.clone() for name, buffer in buffers.items()}
        self._changes = Changes(device.torch_device)
        with device.as_default(), as_on_gpu():
            self._table_errors = self._errors_of_tables(seed + 1)
        self._begin_inputs()
        self._begin_findings()
        self.rounds: Rounds | None = None
        # What timed calls run: the model, or what torch.compile made of it.
        self.timed: Callable[..., Any] = self.model

    def _begin_inputs(self) -> None:
        """Start without inputs and answers."""
        self.made: list[torch.Tensor] = []
        self.sites: dict[str, int] = {}
        self.built_sites: dict[str, int] = {}
        self.sides: list[int] = []
        self.inputs_tree: codec.Value = []
        self.answers: list[_AnswerTensor] = []
        self._resized = self._on_grid = False
        self._blocks: Blocks | None = None
        # The encoded form of the last inputs and answer, and where the judge put them.
        self.inputs_form = b""
        self.inputs_place: tuple[bytes, codec.Value] | None = None
        self.answer_form = b""
        self.answer_place: tuple[bytes, list[Any]] | None = None

    def _begin_findings(self) -> None:
        """Start without knowledge of what the forward does."""
        # Whether its forward has products that a chip can compute in TF32; determined once.
        self._has_products: bool | None = None
        # Whether its forward has casts, searches or rankings that may be undefined; determined once.
        self._may_be_undefined: bool | None = None
        # Determined on its first inputs, which are plain: which functions with a lossy textbook form its forward calls,
        # its elementwise operators, the sign of divisors whose quotients it compares, and whether it orders NaN.
        self._plain_forms: dict[str, float] | None = None
        # There, in which precision each tensor of its answer is computed, and their dtypes.
        self._precisions: list[Precision] = []
        self._answer_dtypes: list[torch.dtype] = []
        self._sample_run = Run()
        self._sample_parts: Run | None = None
        self._sign, self._ranks_nan = "", False
        # Whether, there, it compares, rounds or orders numbers that it has rounded.
        self._decides = False
        self._inexact: set[int] = set()
        # Whether its forward rounds, and makes numbers from integers; checked on all inputs until it has rounded once.
        self._rounds = self._converts = False
        # The context of each call of the model.
        self._during: Callable[[], AbstractContextManager[Any]] = nullcontext
        self._begin_steps()
        # What makes the changes of tables, by their errors; None outside of perturbed runs.
        self._table_changes: Perturbation | None = None
        self._undefined = self._ranks = self._tied = self._unordered = False
        # How the outputs of its last answer lie in memory that is not theirs alone.
        self._shares: set[str] = set()
        # What its calls changed of their caller's; a setting changes in the first only.
        self._side_effects: set[str] = set()

    def _begin_steps(self) -> None:
        """Start without steps: they belong to one input set, so that no verdict depends on earlier sets."""
        # The steps that no rounding reaches in the own run, and how often it called their operators.
        self._steps: tuple[Steps, Counter[str]] = {}, Counter()
        # Whether it compares, rounds or orders numbers that it has rounded, such as a sum that others add in another
        # order.
        self._steps_of_rounded = False
        # Whether it compares half precision with numbers that this rounds.
        self._casts_numbers = False

    @property
    def pieces(self) -> dict[str, int]:
        """For each side that the problem, with its own sizes, cuts into equal pieces, their number."""
        runs = [run for run in (self._sample_parts, self._sample_run) if run is not None]
        sides = {side for run in runs for side in run.pieces}
        return {str(side): math.lcm(*(run.pieces.get(side, 1) for run in runs)) for side in sides}

    def _model_class(self) -> type:
        found = self.namespace["Model"]
        if not isinstance(found, type):
            raise TypeError(f"Model must be a class; got {type(found).__name__}")
        return found

    def _construct(self) -> nn.Module:
        model = calling.constructed(self._model_class(), self.init)
        if not isinstance(model, nn.Module):
            raise TypeError(f"Model must be an nn.Module; got {type(model).__name__}")
        return model

    def _tables(self, other_seed: int) -> frozenset[str]:
        """Return the floating buffers that the constructor fills with the same numbers under another seed.

        They are constants of the source: a Hadamard matrix, the taps of a filter, sines of positions. A buffer of zeros
        or of ones is state, like running statistics.
        """
        of_numbers = {
            name: buffer
            for name, buffer in module_state.buffers(self.model).items()
            if (buffer.is_floating_point() or buffer.is_complex())
            and buffer.numel()
            and not _is_all(buffer, 0)
            and not _is_all(buffer, 1)
        }
        if not of_numbers:
            return frozenset()
        self.device.seed(other_seed)
        others = module_state.buffers(self._construct().to(self.device.torch_device))
        return frozenset(
            name for name, one in of_numbers.items() if name in others and tensor_views.equal(one, others[name])
        )

    def _errors_of_tables(self, seed: int) -> dict[str, torch.Tensor]:
        """Return the largest distance of the tables from those of constructors that round every result differently.

        A kernel may compute a table, or have one that is nearer to the exact numbers than the problem's own: the error
        in the sine of an angle of a few hundred comes from the angle's rounding.
        """
        known = self.initial_buffers
        kept = [name for name in self._kept_tables() if known[name].itemsize > 1 and not known[name].is_complex()]
        if not kept:
            return {}
        tables = {name: self.initial_buffers[name] for name in kept}
        if not self._computes_functions(seed):
            return {}
        apart = {name: torch.zeros_like(table) for name, table in tables.items()}
        begun = time.monotonic()
        for number in range(TABLE_RUNS):
            if time.monotonic() - begun > TABLE_S:
                break
            self.device.seed(seed)
            try:
                with RoundingNoise(self._roundings(seed + number)):
                    others = module_state.buffers(self._construct().to(self.device.torch_device))
                found = {name: _small((others[name] - table).abs(), table) for name, table in tables.items()}
            except Exception:  # noqa: BLE001  (foreign code may raise anything; its tables then count as exact)
                return {}
            apart = {name: torch.maximum(error, found[name]) for name, error in apart.items()}
        return {name: error for name, error in apart.items() if bool(error.any())}

    def _computes_functions(self, seed: int) -> bool:
        """Whether the constructor computes what others round differently; equal divisions and sums give equal bits."""
        self.device.seed(seed)
        with suppress(Exception), FunctionFinder() as finder:
            self._construct()
            return bool(finder.found)
        return False  # Foreign code may raise anything under a dispatch mode; its tables then count as exact.

    def _named_once(self, named: module_state.Named) -> module_state.Named:
        return {name: tensor for name, tensor in named.items() if name not in self.other_names}

    def describe_state(self) -> dict[str, Any]:
        """Return init arguments, parameters and buffers as slots, which buffers are constants, and the inputs' sizes.

        A parameter or buffer with several names is listed under the first; `other_names` maps the others to it.

        Raises:
            WireError: a value cannot be sent to another process.
        """
        found: list[torch.Tensor] = []
        return {
            "init": tensor_views.describe(self.init, found, keep_records=True),
            "parameters": {name: tensor_views.own_layout(tensor) for name, tensor in self._parameters().items()},
            "buffers": {name: tensor_views.slot_of(tensor) for name, tensor in self.initial_buffers.items()},
            "other_names": self.other_names,
            "constants": sorted((self.initial_buffers.keys() - self.model.state_dict().keys()) | self._kept_tables()),
            "sizes": self.sizes.values,
            "occurrences": self.sizes.occurrences,
        }

    def _kept_tables(self) -> set[str]:
        return {name for name in self.tables if name in self.initial_buffers}

    def _parameters(self) -> module_state.Named:
        return self._named_once(module_state.parameters(self.model))

    def fill_state(self, fields: codec.Fields, arena: "Shared") -> None:
        """Move the state into the judge's arena, where the judge can change it."""
        found: list[torch.Tensor] = []
        tensor_views.describe(self.init, found, keep_records=True)
        for slot, tensor in zip(codec.slots(fields.value("init")), found, strict=True):
            tensor_views.view(arena, slot).copy_(tensor)
        own = self._parameters()
        slots = fields.slot_map("parameters")
        for name, slot in slots.items():
            tensor_views.fill(arena, slot, own[name].data)
        module_state.move(self.model, [(own[name], tensor_views.view(arena, slot)) for name, slot in slots.items()])
        for name, slot in fields.slot_map("buffers").items():
            placed = tensor_views.view(arena, slot)
            placed.copy_(self.initial_buffers[name])
            self.initial_buffers[name] = placed

    def make_inputs(self, seed: int, sizes: dict[str, int], draws: DrawPlan = PLAINLY) -> codec.Value:
        """Make an input set, with other `sizes` by name, varied by `draws`; return its slots, and update `sites`.

        `fill_inputs` then copies it, or `fill_inputs_as_before` if it has the slots of the previous set.

        Raises:
            AccidentalSizesError: `get_inputs` clips or cuts tensors of these sizes as it does not with its own.
        """
        self._on_grid, self._resized = draws.on_grid, bool(sizes)
        catch, inputs = self._caught_inputs(seed, sizes, draws)
        if catch.streams.met and self._blocks is None:
            # Which tensors its individually drawn numbers end up in is found with a fixed seed, so that a restarted
            # worker makes the same inputs again.
            self._blocks = self._caught_inputs(0, {}, PLAINLY)[0].streams.blocks()
            catch, inputs = self._caught_inputs(seed, sizes, draws)
        self.sides = [side for side in catch.sides.met if not sizes and side not in self._held_integers]
        self.sites = dict(list(catch.sites.items())[:MOST_SITES])
        self.built_sites = catch.built
        inputs = calling.forward_arguments(inputs)
        self.made = []
        tree = tensor_views.describe(inputs, self.made, keep_layout=True, keep_records=True)
        self.inputs_form = codec.encode(tree)
        return tree

    def _caught_inputs(self, seed: int, sizes: dict[str, int], draws: DrawPlan) -> tuple[Catch, Any]:
        """Run `get_inputs` once, and return what intercepted its draws, and its inputs."""
        if sizes and self._sample_parts is None:
            self._caught_inputs(0, {}, PLAINLY)
        sizes_written = self.sizes.numbers | self._held_numbers
        catch = Catch(
            str(self.path),
            seed,
            draws,
            self.device.seed,
            self.sizes.literal_calls,
            named_sizes.short_numbers(sizes_written),
            named_sizes.long_numbers(sizes_written),
            self.sizes.integers,
            self.sizes.ordered,
            self._blocks,
            Sides(sides_among(sizes)),
            DrawBounds(self.sizes.changes(sizes)),
        )
        seeds = {count: catch.seed_of_list(count) for count in self.sizes.lists.counts}
        with self.device.as_default(), catch, self._as_on_gpu():
            get_inputs = self.sizes.get_inputs(sizes, {count: one for count, one in seeds.items() if one is not None})
            catch.rebind(get_inputs.__globals__)
            # Inside the interception of draws, so that only the problem's own calls are seen.
            with PartsObserver() as parts:
                inputs = get_inputs()
        if self._sample_parts is None:
            self._sample_parts = parts.run
        elif sizes and is_accident(parts.run, self._sample_parts):
            raise AccidentalSizesError("get_inputs() clips or cuts tensors of these sizes by accident")
        return catch, catch.finish(inputs)

    def fill_inputs(self, tree: codec.Value, arena: "Shared") -> None:
        """Copy the last inputs into the judge's arena."""
        for slot, tensor in zip(codec.slots(tree), self.made, strict=True):
            tensor_views.fill(arena, slot, tensor)
        self.inputs_tree, self.made = tree, []
        self.inputs_place = self.inputs_form, tree
        self.device.release_if_scarce()
        self.device.settle()

    def fill_inputs_as_before(self) -> bool:
        """Copy the inputs to the place of the previous ones if they have the same form; return whether they have."""
        if self.inputs_place is None or self.inputs_place[0] != self.inputs_form:
            return False
        self.fill_inputs(self.inputs_place[1], self.memory.buffers["inputs"])
        return True

    def run(self, arena: "Shared", seed: int, *, exact: bool, extra_s: float) -> dict[str, Any]:
        """Compute the answer to the inputs in `arena`; also in fp64, and its spread, if problem and time allow.

        Args:
            arena: holds the inputs.
            seed: seed of torch's generators, the same in each run.
            exact: whether to run in fp64.
            extra_s: seconds for everything beyond the own run; 0 skips it.
        """
        precision.apply(self.config.precision)
        try:
            answer = self._answer_with_bounds(arena, seed, exact=exact, extra_s=extra_s)
        finally:
            self._begin_steps()
        self.device.release_if_scarce()
        available = {
            "exact": [one.exact is not None for one in self.answers],
            "spread": [one.spread is not None for one in self.answers],
        }
        self.answer_form = codec.encode([answer, available])
        facts = {"tf32": self._in_tf32, "undefined": self._undefined, "ranks": self._ranks, "tied": self._tied}
        facts["decides"] = self._decides
        computed = [one.computed for one in self.answers]
        return {
            "answer": answer,
            **available,
            **facts,
            "computed": computed,
            "pieces": self.pieces,
            "shares": sorted(self._shares),
            "side_effects": sorted(self._side_effects),
        }

    def _answer_with_bounds(self, arena: "Shared", seed: int, *, exact: bool, extra_s: float) -> codec.Value:
        """Compute the answer, in `answers` with fp64 and spread; return its form."""
        begun, self._shares = time.monotonic(), set()
        answer, tensors = self._own_answer(arena, seed) if not extra_s else self._own_answer_with_steps(arena, seed)
        self.answers = [_AnswerTensor(*one) for one in zip(tensors, self._precisions_of(tensors), strict=True)]
        # An answer that is too large will be refused, so no further memory is spent on it.
        if extra_s and sum(tensor.nbytes for tensor in tensors) <= self.config.max_tensor_bytes:
            self.device.settle()
            budget = _Budget(extra_s, time.monotonic() - begun)
            if exact and budget.allows(EXACT_COST):
                self._add_exact(arena, seed)
            self._add_spread(arena, seed, budget)
            if self._on_grid:
                self._forget_other_steps()
        return answer

    @property
    def _in_tf32(self) -> bool:
        return self.config.precision == "tf32" and bool(self._has_products)

    def _own_answer_with_steps(self, arena: "Shared", seed: int) -> tuple[codec.Value, list[torch.Tensor]]:
        """Compute the answer, and note the steps that no rounding reaches."""
        own = module_state.buffers(self.model)
        finder = StepFinder(own[name] for name in self._table_errors if name in own)
        with self._within(finder):
            found = self._own_answer(arena, seed)
        self._steps = finder.steps(tied=self._tied), finder.count
        self._steps_of_rounded, self._casts_numbers = finder.others, finder.casts
        return found

    @contextmanager
    def _within(self, context: AbstractContextManager[Any]) -> Iterator[None]:
        """Call the model within a context."""
        self._during = lambda: context
        try:
            yield
        finally:
            self._during = nullcontext

    def _with_steps(self, answer: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
        """Return another run's answer, with the steps of the own run, if it takes the same path."""
        steps, count = self._steps
        if not steps:
            return answer()
        held = SteadySteps(steps)
        with self._within(held):
            found = answer()
        return found if held.follows(count) else answer()

    def _own_answer(self, arena: "Shared", seed: int) -> tuple[codec.Value, list[torch.Tensor]]:
        """Compute the answer, and note whether it is defined, and on the first inputs what to look for in others."""
        if self._plain_forms is None:
            precisions = PrecisionFinder(self._given_dtypes())
            with PlainFormFinder() as forms, RunObserver() as observer, StepFinder() as steps, precisions:
                found = self._defined_answer(arena, seed)
            self._precisions = [precisions.precision(tensor) for tensor in found[1]]
            self._answer_dtypes = [tensor.dtype for tensor in found[1]]
            self._plain_forms, self._sample_run, self._decides = forms.shares, observer.run, steps.others
            return found
        if not self._resized:
            return self._defined_answer(arena, seed)
        with RunObserver() as observer:
            found = self._defined_answer(arena, seed)
        self._undefined |= is_accident(observer.run, self._sample_run)
        return found

    def _given_dtypes(self) -> Iterator[torch.dtype]:
        """Yield the dtypes of inputs, parameters and buffers."""
        yield from (tensor_views.TORCH_DTYPES[slot.dtype] for slot in codec.slots(self.inputs_tree))
        yield from (tensor.dtype for tensor in module_state.tensors(self.model).values())

    def _precisions_of(self, tensors: list[torch.Tensor]) -> list[Precision]:
        """Return how each tensor of an answer was computed, as seen in the first run if it has the same form."""
        if [one.dtype for one in tensors] == self._answer_dtypes:
            return self._precisions
        return [Precision(one.dtype, one.dtype.itemsize) for one in tensors]

    def _defined_answer(self, arena: "Shared", seed: int) -> tuple[codec.Value, list[torch.Tensor]]:
        """Compute the answer, and check whether it is defined unless the first answer had nothing undefinable."""
        if self._may_be_undefined is False:
            self._undefined = False
            return self._plain_answer(arena, seed)
        with AmbiguityFinder(self._sign) as finder:
            answer = self._plain_answer(arena, seed)
        if self._may_be_undefined is None:
            self._sign, self._ranks_nan = finder.quotients.of_one_sign, finder.of_nan
        self._may_be_undefined = finder.found or finder.ranks or bool(self._may_be_undefined)
        self._ranks, self._tied = self._ranks or finder.ranks, finder.tied
        self._undefined = finder.undefined or (finder.of_nan and not self._ranks_nan)
        self._unordered |= finder.unordered
        return answer

    def _plain_answer(self, arena: "Shared", seed: int) -> tuple[codec.Value, list[torch.Tensor]]:
        if self.config.precision == "ieee" or self._has_products is not None:
            return self._answer(self.model, arena, seed, lambda tensor: tensor)
        with precision.ProductFinder() as finder:
            found = self._answer(self.model, arena, seed, lambda tensor: tensor)
        self._has_products = finder.found
        return found

    def _answer(
        self, model: nn.Module, arena: "Shared", seed: int, cast: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[codec.Value, list[torch.Tensor]]:
        self._restore_buffers(model, cast)
        # Cloned, because the problem may write to its own inputs.
        inputs = tensor_views.materialise(self.inputs_tree, lambda slot: cast(tensor_views.copy_of(arena, slot)))
        self.device.seed(seed)
        view, stream = side_effects.CallersView(inputs, model, self.device.initial_seeds), self.device.current_stream()
        with self._during(), self._as_on_gpu():
            output = calling.called(model, inputs)
        self._side_effects |= view.changes()
        if self.device.current_stream() != stream:
            self._side_effects.add(side_effects.STREAM)
        found: list[torch.Tensor] = []
        form = outputs.canonical(output, outputs.Bounded())
        buffers = dict(model.named_buffers())
        # In any of the runs for this answer: a cast to float32 returns its argument only in some.
        self._shares |= sharing.of_outputs(form, buffers.values(), pytree.tree_leaves(inputs))
        described = tensor_views.describe({"output": form, "buffers": buffers}, found)
        # Later runs for the same answer write to the module's buffers, and its parameters are restored.
        held = [tensor for tensor in module_state.tensors(model).values() if tensor.layout == torch.strided]
        own = {tensor.untyped_storage().data_ptr() for tensor in held}
        return described, [one.clone() if one.untyped_storage().data_ptr() in own else one for one in found]

    def _restore_buffers(self, model: nn.Module, cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
        own = module_state.buffers(model)
        for name in self.initial_buffers.keys() & own.keys():
            own[name].copy_(cast(self.initial_buffers[name]))
            if self._table_changes is not None and name in self._table_errors:
                error = self._table_errors[name]
                own[name].add_(error * self._table_changes.changes(error).to(error.dtype))

    def _add_exact(self, arena: "Shared", seed: int) -> None:
        """Add the tensors of a run in fp64, if the problem supports it and answers in the same form."""
        try:
            with module_state.widened(self.model):
                wide = self._with_steps(lambda: self._answer(self.model, arena, seed, _widen)[1])
        except Exception:  # noqa: BLE001  (foreign code may raise anything; the judge can do without fp64)
            return
        if len(wide) == len(self.answers):
            for one, tensor in zip(self.answers, wide, strict=True):
                one.exact = tensor.double() if _usable(one, tensor) else None

    def _forget_other_steps(self) -> None:
        """On a grid, replace fp64 results across a step that no perturbed run crossed.

        Such inputs lie exactly on a number of the problem's source as its dtype rounds it; in fp64 that number differs,
        so that run compared with something else.
        """
        for one in self.answers:
            if one.exact is None or one.spread is None or one.own.dtype != torch.float32:
                continue
            own = one.own.double()
            # Not their mean, which a few wide slices raise above every step.
            usual = own.abs()[own != 0].median() if bool((own != 0).any()) else own.abs().mean()
            near = STEP * (own.abs() + usual) + STEP_SPREADS * one.spread.double()
            crossed = (one.exact - own).abs() > near
            one.exact = torch.where(crossed & torch.isfinite(own), own, one.exact)

    def _add_spread(self, arena: "Shared", seed: int, budget: _Budget) -> None:
        """Add the distances of perturbed runs from the own run.

        Inputs less precise than the answer are treated as exact, except for integer answers: ties have no order.
        """
        # By the precision of what they were computed from: half precision that was rounded is not exact.
        finest = max((one.precision.narrowest for one in self.answers if one.own.is_floating_point()), default=1)
        mixed = [one for one in self.answers if one.precision.narrowest < one.own.dtype.itemsize]
        runs = self._plain_runs(finest, mixed)
        plain = len(runs)
        integers = [one for one in self.answers if not one.own.is_floating_point() and not one.own.is_complex()]
        halves = any(slot.dtype in HALVES for slot in codec.slots(self.inputs_tree))
        if integers and halves:
            runs += [(HALF_BYTES, integers)] * TIE_PAIRS
        if self._plain_forms and has_textbook_form(self._plain_forms) and budget.allows(1.0):
            with suppress(Exception), PlainForms(None, self._plain_forms):
                self._note_spread(self._answer(self.model, arena, seed, lambda tensor: tensor)[1], self.answers)
        if self._casts_numbers and budget.allows(1.0):
            self._add_wide_numbers(arena, seed)
        if self._unordered and self._tied:
            self._add_tied_orders(arena, seed, budget)
        exact = not self._rounds and budget.allows(EXACT_COST) and self._only_selects(arena, seed)
        if exact and not self._ranks:
            self._note_spread([one.own for one in self.answers], self.answers)
            return
        if not self._on_grid:
            self._add_roundings(
                arena, seed, budget, self.answers if self._converts or self._steps_of_rounded else mixed
            )
        settings: dict[str, Any] = {"tf32": self._in_tf32, "finely": exact, "inexact": self._inexact}
        for pair, (least, noted) in enumerate(runs):
            settings["breaks_ties"] = pair >= plain
            perturb = Perturbation(self._changes, seed + pair, least, **settings)
            for sign in (1.0, -1.0):
                if not budget.allows(1.0):
                    return
                perturb.start(sign)
                with suppress(Exception):  # Foreign code may raise anything; other runs remain.
                    if self._on_grid:
                        self._note_spread(self._noisy(arena, seed, perturb), noted)
                        perturb.start(sign)
                    if self._unordered or not self._on_grid:
                        self._note_spread(self._perturbed(arena, seed, perturb), noted)

    def _plain_runs(self, finest: int, mixed: list[_AnswerTensor]) -> list[tuple[int, list[_AnswerTensor]]]:
        """Return the pairs of runs with perturbed inputs: the least bytes of those, and the answers they are for."""
        slots = list(codec.slots(self.inputs_tree))
        elements = sum(slot.numel for slot in slots)
        elements += sum(parameter.numel() for parameter in self.model.parameters())
        halves = any(slot.dtype in HALVES for slot in slots)
        narrow = min([finest, *(one.precision.narrowest for one in mixed)])
        few = HALF_PAIRS if halves and narrow == HALF_BYTES else 2
        runs = [(finest, self.answers)] * (few if elements <= MOST_PAIRED_TWICE else 1)
        for least in sorted({one.precision.narrowest for one in mixed} - {finest}):
            runs += [(least, [one for one in mixed if one.precision.narrowest == least])] * few
        return runs

    def _add_wide_numbers(self, arena: "Shared", seed: int) -> None:
        """Add the distance of a run that compares half precision with the source's unrounded numbers."""
        with suppress(Exception), self._within(WideNumbers()):  # Foreign code may raise anything; other runs remain.
            self._note_spread(self._answer(self.model, arena, seed, lambda tensor: tensor)[1], self.answers)

    def _add_tied_orders(self, arena: "Shared", seed: int, budget: _Budget) -> None:
        """Add the distances of runs that order equal numbers otherwise, where no order is specified."""
        for backwards in (False, True):
            if not budget.allows(1.0):
                return
            with suppress(Exception), TiedOrder(backwards=backwards):  # As above.
                self._note_spread(self._answer(self.model, arena, seed, lambda tensor: tensor)[1], self.answers)

    def _only_selects(self, arena: "Shared", seed: int) -> bool:
        """Whether the reference rounds nothing on these inputs, so that every kernel finds the same numbers.

        Perturbed inputs would excuse the wrong side of every step that an input lies on.
        """
        noise = RoundingNoise(self._roundings(seed))
        try:
            with noise:
                self._answer(self.model, arena, seed, lambda tensor: tensor)
        except Exception:  # noqa: BLE001  (foreign code may raise anything; its numbers then count as rounded)
            noise.rounded = True
        self._rounds, self._converts = noise.rounded or bool(self._table_errors), self._converts or noise.converts
        return not self._rounds

    def _roundings(self, seed: int) -> Perturbation:
        return Perturbation(self._changes, seed, 1, tf32=False, finely=True)

    def _add_roundings(self, arena: "Shared", seed: int, budget: _Budget, noted: list[_AnswerTensor]) -> None:
        """Add the distances of runs with roundings of what the reference computes to the answers in `noted`.

        Where it computes with integers, or with numbers near zero, perturbed inputs say nothing about these. Nor do
        they where it rounds numbers to half precision and computes further in float32.
        """
        if not noted:
            return
        for pair in range(ROUNDING_PAIRS):
            perturb = self._roundings(seed + pair)
            for alternates, sign in itertools.product((False, True), (1.0, -1.0)):
                if not budget.allows(1.0):
                    return
                perturb.start(sign, alternates=alternates)
                with suppress(Exception):  # Foreign code may raise anything; other runs remain.
                    self._note_spread(self._noisy(arena, seed, perturb), noted)

    def _perturbed(self, arena: "Shared", seed: int, perturb: Perturbation) -> list[torch.Tensor]:
        """Return the tensors of a perturbed run."""
        with module_state.changed(self.model, perturb), self._textbook(perturb), self._inexact_tables(perturb):
            return self._with_steps(lambda: self._answer(self.model, arena, seed, perturb)[1])

    @contextmanager
    def _inexact_tables(self, perturb: Perturbation) -> Iterator[None]:
        """Add the errors of tables to them within the context."""
        self._table_changes = perturb
        try:
            yield
        finally:
            self._table_changes = None

    def _textbook(self, perturb: Perturbation) -> AbstractContextManager[Any]:
        """Return the context of a run in which functions have the rounding errors of their textbook forms."""
        return PlainForms(perturb, self._plain_forms) if self._plain_forms else nullcontext()

    def _noisy(self, arena: "Shared", seed: int, perturb: Perturbation) -> list[torch.Tensor]:
        """Return the tensors of a run in which each rounded result is perturbed, and no input is."""
        with RoundingNoise(perturb), self._textbook(perturb), self._inexact_tables(perturb):
            return self._answer(self.model, arena, seed, lambda tensor: tensor)[1]

    def _note_spread(self, tensors: list[torch.Tensor], noted: "list[_AnswerTensor]") -> None:
        """Update the spread of the answers in `noted` from the tensors of a perturbed run."""
        if [_form(tensor) for tensor in tensors] != [_form(one.own) for one in self.answers]:
            return
        for answer, tensor in zip(self.answers, tensors, strict=True):
            if any(answer is one for one in noted):
                apart = distance(answer.own, tensor)
                if self._ranks and not (tensor.is_floating_point() or tensor.is_complex()):
                    # Among nearly equal numbers any index may be the first: how far those seen are apart says nothing.
                    apart = torch.where(apart > 0, ANY_INDEX, apart)
                answer.spread = apart if answer.spread is None else torch.maximum(answer.spread, apart)

    def fill_answers(self, slots: list[Any], arena: "Shared") -> None:
        """Copy each answer, its fp64 form and its spread to the slots that the judge allocated."""
        for answer, places in zip(self.answers, slots, strict=True):
            for tensor, slot in zip((answer.own, answer.exact, answer.spread), places, strict=True):
                if slot is not None and tensor is not None:
                    tensor_views.view(arena, slot).copy_(tensor)
        self.answers = []
        self.answer_place = self.answer_form, slots
        self.device.settle()
        self.device.release_if_scarce()

    def fill_answers_as_before(self) -> bool:
        """Copy the answers to the place of the previous ones if they have the same form; return whether they have."""
        if self.answer_place is None or self.answer_place[0] != self.answer_form:
            return False
        self.fill_answers(self.answer_place[1], self.memory.buffers["answers"])
        return True

    def operations(self) -> dict[str, int] | None:
        """Count the operations of one forward on the inputs in the arena, by dtype; None if it fails while counted."""
        try:
            return operation_count.operations_of(
                lambda: self._answer(self.model, self.memory.buffers["inputs"], 0, lambda tensor: tensor)
            )
        except Exception:  # noqa: BLE001  (foreign code may raise anything under a dispatch mode; nothing is judged here)
            return None
        finally:
            self.device.settle()

    def tune(self, mode: str, device_alone: OnDevice = nullcontext) -> int:
        """Compile the model with torch.compile for the inputs in the arena, and time that from now on.

        Args:
            mode: of torch.compile, or `eager`, which times the model as it is.
            device_alone: a context in which nothing else runs on the device, if others use it meanwhile.

        Returns:
            The bytes of the tensors that a call returns.

        Raises:
            NotCompiledError: it cannot be compiled, or the compiled module raises.
        """
        from warpsmith.evaluator.workers import compiled_reference

        self.timed = self.model
        precision.apply(self.config.precision)
        if mode == EAGER:
            return self._call_tuned(self.model, 1, nullcontext)
        compiled = compiled_reference.compiled(self.model, mode)
        try:
            with compiled_reference.comparing_times_in(device_alone):
                output_bytes = self._call_tuned(compiled, COMPILED_CALLS, device_alone)
        except Exception as error:
            raise compiled_reference.NotCompiledError(compiled_reference.shortened(error)) from error
        self.timed = compiled
        return output_bytes

    def _call_tuned(self, model: Callable[..., Any], count: int, device_alone: OnDevice) -> int:
        """Call a form of the model; others use the device during the first call, which may take long to compile."""
        arena, output_bytes = self.memory.buffers["inputs"], 0
        for number in range(count):
            self._restore_buffers(self.model, lambda tensor: tensor)
            inputs = tensor_views.materialise(self.inputs_tree, lambda slot: tensor_views.copy_of(arena, slot))
            with device_alone() if number else nullcontext():
                leaves = pytree.tree_leaves(calling.called(model, inputs))
                output_bytes = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
                del leaves
                self.device.settle()
        return output_bytes

    def ring(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> list[Call]:
        """Return a call of the model on each input set of a ring."""
        size = fields.integer("inputs_bytes")
        precision.apply(self.config.precision)
        inputs = self.device.map(fds[0], fields.integer("sets") * size, writable=False)
        os.close(fds[0])
        with on_device():
            return [_ModelCall(self, arena) for arena in tensor_views.parts(inputs, size)]


class _ModelCall(Call):
    """The problem's own forward on one input set, for timing."""

    def __init__(self, reference: Reference, arena: tensor_views.Part) -> None:
        self._reference = reference
        # On copies, since a problem may write to its inputs.
        self._inputs = tensor_views.materialise(reference.inputs_tree, lambda slot: tensor_views.copy_of(arena, slot))
        self._arena = arena
        self._output: Any = None
        self._attributes = list(_plain_tensors(reference.model))

    def reset(self) -> None:
        self._output = None
        # A forward may store its result for its next call. That must not free memory that a graph has captured, so
        # each call starts with tensors that live as long as the ring.
        for attributes, name, tensor in self._attributes:
            attributes[name] = tensor
        self._reference._restore_buffers(self._reference.model, lambda tensor: tensor)

    def run(self, *, fenced: bool = False) -> None:
        self._output = calling.called(self._reference.timed, self._inputs)

    def deliver(self) -> None:
        """Do nothing: the reference's output is not judged here."""


def _plain_tensors(model: nn.Module) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
    """Yield the tensors that modules hold as plain attributes, not as parameters or buffers, with their location."""
    for module in model.modules():
        attributes = vars(module)
        yield from ((attributes, name, held) for name, held in attributes.items() if isinstance(held, torch.Tensor))


def _small(errors: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return a table's errors without those that are not roundings: beyond a step, or where nothing is exact."""
    most = MOST_TABLE_ERROR * torch.nan_to_num(table, 0.0, 0.0, 0.0).abs().max()
    return torch.where(errors.abs() <= most, errors, 0.0)


def _is_all(tensor: torch.Tensor, number: int) -> bool:
    return bool((tensor == number).all())


def _numbers_held(model: nn.Module) -> frozenset[float]:
    """Return the magnitudes of plain numbers that modules hold: thresholds passed to a constructor."""
    held = [value for module in model.modules() for value in vars(module).values()]
    configurations = [record for value in held if (record := records.taken(value)) is not None]
    held += [value for record in configurations for value in (record.fields | record.others).values()]
    numbers = (abs(float(value)) for value in held if type(value) in {int, float})
    return frozenset(number for number in numbers if number <= LARGEST_NUMBER)


def _form(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size]:
    return tensor.dtype, tensor.shape


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _usable(answer: _AnswerTensor, wide: torch.Tensor) -> bool:
    """Whether an fp64 run's answer says more than the own one.

    Fp8 does, since a forward casts to it last, and so does a cast to a dtype wider than that of the own run's numbers.
    """
    tensor = answer.own
    cast = wide.dtype == tensor.dtype and (is_fp8(tensor) or bool(answer.computed))
    return (
        tensor.is_floating_point()
        and (wide.dtype == torch.float64 or cast)
        and wide.shape == tensor.shape
        and tensor_views.NAMES[tensor.dtype] in FLOATING
    )


def serve(
    channel: _native.Channel, scratch: Path, device: Device, config: EvaluatorConfig, *, pretends: bool = True
) -> None:
    """Handle the judge's requests until it closes the channel.

    Args:
        channel: to the judge.
        scratch: a writable folder.
        device: that the worker has.
        config: of the evaluator.
        pretends: whether a worker without a GPU pretends to problems that it has one; the compiler would see through
            it.
    """
    path = scratch / f"{MODULE_NAME}.py"
    reference: Reference | None = None
    as_on_gpu = _gpu_host(device) if pretends else nullcontext
    with torch.no_grad():
        while True:
            message = messages.receive_work(channel)
            try:
                if message.kind is Kind.LOAD:
                    reference = _load(message.fields, path, device, config, as_on_gpu)
                    messages.send(channel, Kind.LOADED, reference.describe_state())
                elif reference is not None:
                    _step(channel, reference, message)
            except SystemExit as error:
                messages.send(channel, Kind.FAILED, failure(message.kind.name.lower(), error, path))
            except Exception as error:  # noqa: BLE001  (foreign code may raise anything; it is reported to the judge)
                messages.send(channel, Kind.FAILED, failure(message.kind.name.lower(), error, path))


def _gpu_host(device: Device) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes the contexts in which a problem written for a GPU runs without one."""
    if not device.kind.interprets:
        return nullcontext
    gpu_stand_in.install_for_problem()
    return gpu_stand_in.GpuHost


def _load(
    fields: codec.Fields,
    path: Path,
    device: Device,
    config: EvaluatorConfig,
    as_on_gpu: Callable[[], AbstractContextManager[Any]],
) -> Reference:
    return Reference(fields.text("source"), path, fields.integer("seed"), device, config, as_on_gpu=as_on_gpu)


def _step(channel: _native.Channel, reference: Reference, message: Message) -> None:
    fields, on_device = message.fields, loans_of(channel, message.fields, reference.device.settle)
    match message.kind:
        case Kind.FILL if fields.text("arena") == "state":
            arena = reference.memory.receive("state", fields.integer("bytes"), message.fds, writable=True)
            with on_device():
                reference.fill_state(fields, arena)
                reference.device.settle()
            messages.send(channel, Kind.FILLED, {})
        case Kind.FILL:
            reference.inputs_place = None
            arena = reference.memory.receive("inputs", fields.integer("bytes"), message.fds, writable=True)
            with on_device():
                reference.fill_inputs(fields.value("inputs"), arena)
            messages.send(channel, Kind.FILLED, {})
        case Kind.MAKE_INPUTS:
            draws = DrawPlan.from_wire(codec.Fields(fields.mapping("draws")))
            tree = reference.make_inputs(fields.integer("seed"), fields.mapping("sizes"), draws)
            # Most sets have the form of the previous one, and then one message suffices instead of two.
            made = {
                "inputs": tree,
                "sites": reference.sites | reference.built_sites,
                "sides": reference.sides,
                "filled": reference.fill_inputs_as_before(),
            }
            messages.send(channel, Kind.INPUTS, made)
        case Kind.RUN:
            arena = reference.memory.buffers["inputs"]
            extra_s = fields.integer("extra_ms") / 1000
            answer = reference.run(arena, fields.integer("seed"), exact=fields.flag("exact"), extra_s=extra_s)
            messages.send(channel, Kind.ANSWERED, answer | {"collected": reference.fill_answers_as_before()})
        case Kind.COLLECT:
            reference.answer_place = None
            arena = reference.memory.receive("answers", fields.integer("bytes"), message.fds, writable=True)
            with on_device():
                reference.fill_answers(fields.sequence("slots"), arena)
            messages.send(channel, Kind.COLLECTED, {})
        case Kind.COUNT:
            counts = reference.operations()
            messages.send(channel, Kind.COUNTED, {"counted": counts is not None, "operations": counts or {}})
        case Kind.TUNE:
            messages.send(channel, Kind.TUNED, {"output_bytes": reference.tune(fields.text("mode"), on_device)})
        case Kind.RING if reference.device.kind.times:
            # An empty ring ends the timing, and releases its memory.
            reference.rounds = None
            if message.fds:
                calls = reference.ring(fields, message.fds, on_device)
                reference.rounds = Rounds(reference.device, calls, on_device)
            else:
                reference.device.release()
            messages.send(channel, Kind.RINGED, {})
        case Kind.ROUND if reference.rounds is not None:
            messages.send(channel, Kind.ROUNDED, reference.rounds.round(fields, on_device))
        case _:
            raise WireError(f"A reference worker cannot handle {message.kind.name}.")
