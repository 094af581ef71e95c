"""Intercepts the functions that make numbers while a problem's `get_inputs` runs, and changes the numbers by a plan.

Runs in the reference worker. Numbers change as soon as they are made, before the problem's code sees them, so that
properties which the code establishes (sorted rows, unit norms, masks, symmetric matrices) hold without extra work.
"""

import hashlib
import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, TracebackType
from typing import Any, Final

import numpy
import torch
from torch.overrides import TorchFunctionMode

from warpsmith.evaluator.reference import distribution_draws, integer_changes, mutations, selected_slices
from warpsmith.evaluator.reference.bounds_of_draws import DrawBounds
from warpsmith.evaluator.reference.cancelling_pairs import can_pair, nearly, pair
from warpsmith.evaluator.reference.distribution_draws import Domain
from warpsmith.evaluator.reference.draw_plan import (
    ALIKE,
    ALL_OPPOSED,
    INPUTS,
    LISTS,
    MASKS,
    MODERATE_TOO,
    PLAIN_INTEGERS,
    PLAIN_NUMBERS,
    RENUMBERED,
    SIGNED,
    TAILED,
    UNSEEN_MASKS,
    WHOLLY_FAR,
    DrawPlan,
    Kind,
)
from warpsmith.evaluator.reference.inner_draws import InnerDraws
from warpsmith.evaluator.reference.lasting_slices import add_lasting_slices
from warpsmith.evaluator.reference.levels import ANY_SIGN, ANYWHERE, AS_MADE, FAR, IN_RANGE, PLAIN, SAME_SIGN
from warpsmith.evaluator.reference.library_draws import Bounds, bounds, patches
from warpsmith.evaluator.reference.scalar_draws import Block, Blocks, Streams
from warpsmith.evaluator.reference.telling_numbers import integers_among
from warpsmith.evaluator.reference.unnamed_sizes import Sides

DEPTH: Final = 6
"""How many of the problem's own frames identify a site."""
OCCURRENCES: Final = 8
"""The first draws in one place are sites of their own, up to this number."""

RARE: Final = 0.4
REDRAWN: Final = 200
"""How often a number that is drawn alone is the least of so many, and how often the largest: often enough that an
author sees it."""
NUMBER_OCTAVES: Final = (-1.0, -0.1)
"""Range of the power of two that multiplies a plain number: smaller ones stay in a domain that begins at zero."""

FLOATING_DRAWS: Final = frozenset(
    ["rand", "randn", "rand_like", "randn_like", "normal", "uniform_", "normal_", "exponential_", "log_normal_"]
    + ["cauchy_", "_standard_gamma"]
    + [f"{name}_{law}_" for name in ("kaiming", "xavier") for law in ("uniform", "normal")]
    + ["trunc_normal_"]
)
FROM_ZERO: Final = frozenset({"rand", "rand_like"})
INTEGER_DRAWS: Final = frozenset({"randint", "randint_like", "random_"})
COUNTS: Final = {"poisson": 0, "geometric_": 1}
"""Functions that draw whole numbers without an upper bound, and their least number."""
WRITTEN: Final = frozenset({"tensor", "as_tensor", "asarray"})
TOSSES: Final = frozenset({"bernoulli", "bernoulli_"})
WHOLE_DRAWS: Final = INTEGER_DRAWS | TOSSES | COUNTS.keys() | {"randperm", "multinomial", "binomial"}
LEAST_CLASSES: Final = 2
LEAST_HALVED: Final = 3
"""Plain integers up to it become three, and it becomes two."""
DRAWS: Final = FLOATING_DRAWS | WHOLE_DRAWS
TABLES: Final = frozenset(
    ["arange", "linspace", "logspace", "tensor"]
    + [f"{name}_window" for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")]
)
CONSTANTS: Final = frozenset(
    ["zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"]
)
SHARING: Final[frozenset[Kind]] = frozenset({"shifted", "scaled", "everything"})
"""Kinds in which draws of integers share numbers."""
SHARED_OF: Final = 4
"""All but one of so many draws get slices of an earlier draw of their shape, where half precision rounds one way."""
QUESTIONS: Final = frozenset({"__get__", "__len__", "size", "dim", "numel", "stride", "is_floating_point"})
CASTS: Final = frozenset({"to", "type", "float", "half", "bfloat16", "double", "bool", "int", "long"})
MOVES: Final = frozenset({"cuda", "cpu", "contiguous", "clone", "requires_grad_", "view", "reshape", "unsqueeze"})
LOOKS: Final = QUESTIONS | CASTS | MOVES
"""Functions that leave a constant an unchanged (or only cast) input."""
INTO_INTEGERS: Final = frozenset({"long", "int", "short", "char", "byte", "to", "type", "floor_divide"})
SCALINGS: Final = frozenset({"mul", "mul_", "__mul__", "__rmul__", "div", "div_", "__truediv__", "true_divide"})
MOVINGS: Final = frozenset({"add", "add_", "__add__", "__radd__", "sub", "sub_", "__sub__"})
"""Functions that add a number to a draw."""
BOUNDING: Final = frozenset({"clamp", "clip", "clamp_", "remainder", "fmod", "sigmoid", "softmax", "__mod__"})
"""Functions that map numbers of any range to a range that the code chose."""
COMPARISONS: Final = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
)


@dataclass
class Origin:
    """Where a tensor's numbers come from.

    Attributes:
        draws: sites of random draws that it was computed from, since its range was last bounded.
        drawn: whether it is a random draw, or one times or plus a number: no relation between its elements is promised.
        used: whether something was computed from such a draw.
        tables: sites of tables that it was computed from, since its range was last bounded.
        written: whether its numbers are integers computed from `arange` alone.
        constant: the constant that it is, until something is computed from it.
    """

    draws: frozenset[str] = frozenset()
    drawn: bool = False
    used: bool = False
    tables: frozenset[str] = frozenset()
    written: bool = False
    constant: "Constant | None" = None


@dataclass
class Constant:
    """A tensor of one repeated number: the site that made it, and whether the code computed anything from it."""

    site: str
    used: bool = False
    varied: torch.Tensor | None = None


@dataclass(eq=False)
class Catch(TorchFunctionMode):
    """Context in which `get_inputs` runs.

    Attributes:
        path: the problem's file; frames in it name the sites.
        seed: secret from which all random numbers are derived.
        plan: which sites change, and how.
        reseed: seeds torch's global generators.
        literals: `line:column` of calls that make a tensor of literal numbers.
        numbers: numbers of few bits that the problem's forward may compare with; planted in draws on a grid.
        long_numbers: the same of many bits.
        integers: integers that the problem may compare with; planted in draws of integers.
        ordered: the integers of the source in its order; some are placed next to each other in draws of integers.
        sides: the sides requested from functions that make tensors, and what they become.
        draw_bounds: the bounds of integer draws, which follow the sizes that they equal.
        blocks: the tensors that numbers drawn one at a time become, as an earlier run found; None if none did.
        sites: the sites seen, with the highest level that each can have.
        built: the same of masks, positions and plain numbers among the inputs, which change only if they are the same
            in each input set.
    """

    path: str
    seed: int
    plan: DrawPlan
    reseed: Callable[[int], None]
    literals: frozenset[str] = frozenset()
    numbers: tuple[float, ...] = ()
    long_numbers: tuple[float, ...] = ()
    integers: tuple[int, ...] = ()
    ordered: tuple[int, ...] = ()
    blocks: Blocks | None = None
    sides: Sides = field(default_factory=lambda: Sides({}))
    draw_bounds: DrawBounds = field(default_factory=DrawBounds)
    sites: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._occurrences: Counter[str] = Counter()
        self._converted: set[str] = set()
        self._plain_numbers = itertools.count()
        self._signed = 0
        self._pairs = 0
        self._tailed: dict[tuple[torch.Size, torch.dtype, torch.device], torch.Tensor] = {}
        self._opposite: dict[tuple[torch.Size, torch.device], torch.Tensor] = {}
        self._integer_draws: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}
        self._last_integers: list[tuple[torch.Tensor, tuple[int, int]]] = []
        self._gridded: dict[tuple[torch.dtype, int, torch.device], torch.Tensor] = {}
        self._generators: dict[int, tuple[torch.Generator, torch.Generator]] = {}
        self.streams = Streams(self.blocks)
        self._patches = patches()

    def __enter__(self) -> "Catch":
        self._seed_all(self.seed)
        self._stack.enter_context(self._patches.serving(self))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._stack.close()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if isinstance(kwargs.get("generator"), torch.Generator):
            kwargs["generator"] = self._own_generator(kwargs["generator"])
        name = getattr(func, "__name__", "")
        args, kwargs = self.asked(name, args, kwargs)
        tensors = list(_tensors([args, kwargs]))
        with nullcontext() if name in DRAWS else InnerDraws(self._made_inside):
            result = func(*args, **kwargs)
        if name in selected_slices.ORDERINGS and isinstance(result, torch.Tensor):
            self._compared(result, tensors, lambda: func(*args, **kwargs))
        self._note_use(name, tensors)
        for made in _tensors(result):
            self._made(name, made, tensors, args, kwargs)
        return result

    def _made_inside(self, name: str, made: torch.Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Vary what an operator draws inside another function."""
        if name in DRAWS:
            self._made(name, made, list(_tensors([args, dict(kwargs)])), args, dict(kwargs))

    def rebind(self, names: dict[str, Any]) -> None:
        """Intercept the random functions and generators that a module's names already hold."""
        self._patches.rebind(names)

    def restart(self, key: object) -> None:
        """Seed every generator from the secret and `key`, whatever seed the problem chose."""
        self._seed_all(self.derive(f"restart {key}"))

    def _seed_all(self, seed: int) -> None:
        self.reseed(seed)
        _SEED_PYTHON(seed)
        _SEED_NUMPY(seed % (1 << 32))

    def seed_torch(self, seed: int) -> torch.Generator:
        """Replace `torch.manual_seed`."""
        self.restart(seed)
        return torch.default_generator

    def asked(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a function's arguments, with other sides of a shape and other bounds of integers."""
        return self.draw_bounds.asked(name, *self.sides.asked(name, args, kwargs))

    def derive(self, key: str) -> int:
        """Return 48 secret bits derived for `key`."""
        digest = hashlib.blake2b(f"{self.seed} {key}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "little")

    def _own_generator(self, original: torch.Generator) -> torch.Generator:
        """Return the generator that replaces one of the problem's: it is seeded by the secret as well."""
        if id(original) not in self._generators:
            own = torch.Generator(original.device).manual_seed(self.derive(f"generator {original.initial_seed()}"))
            self._generators[id(original)] = original, own
        return self._generators[id(original)][1]

    def _note_use(self, name: str, tensors: list[torch.Tensor]) -> None:
        for origin in filter(None, map(_origin, tensors)):
            if origin.constant is not None and name not in LOOKS:
                origin.constant.used = True
            origin.used |= name not in QUESTIONS
            if name in COMPARISONS:
                self._bound(origin.tables, PLAIN)

    def _compared(self, mask: torch.Tensor, tensors: list[torch.Tensor], again: Callable[[], torch.Tensor]) -> None:
        """Let a comparison of one draw select all or none of some slices, if the plan says so.

        Not of one from which something was computed before, which would no longer fit. What follows fits: the draw
        itself changes.
        """
        drawn = [one for one in tensors if (origin := _origin(one)) is not None and origin.drawn and not origin.used]
        if len(drawn) != 1 or drawn[0].shape != mask.shape or not drawn[0].is_floating_point():
            return
        self.built[MASKS] = IN_RANGE
        if self.plan.selects:
            selected_slices.select(drawn[0], mask, again, self.plan.selects, self._dice_of_slices(drawn[0]))

    def _made(
        self, name: str, made: torch.Tensor, tensors: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Vary a new tensor, and tag it with its origin."""
        floating = made.is_floating_point() or made.is_complex()
        if name in FLOATING_DRAWS and floating:
            ends = _ends_of(name, made, args, kwargs)
            _tag(made, Origin(draws=self.draw(made, from_zero=name in FROM_ZERO, ends=ends), drawn=True))
        elif name in WHOLE_DRAWS:
            self._whole(name, made, tensors, args, kwargs)
        elif name in WRITTEN and args and isinstance(args[0], list | tuple) and (site := self.written(args[0], made)):
            _tag(made, Origin(draws=site, drawn=True))
        elif name in CONSTANTS or (name == "tensor" and made.numel() == 1 and not floating and self._is_literal()):
            _tag(made, Origin(constant=Constant(self._site())))
        elif name in TABLES and floating:
            _tag(made, Origin(tables=self._table(made, written=name == "tensor")))
        elif name == "arange":
            _tag(made, Origin(written=True))
        else:
            self._derived(name, made, [origin for origin in map(_origin, tensors) if origin is not None], tensors)

    def _whole(
        self, name: str, made: torch.Tensor, tensors: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Vary a draw from a discrete distribution."""
        if name in INTEGER_DRAWS:
            low, high = bounds(args, kwargs)
            if high is not None:
                self.integers_of(made, low, high)
        elif name == "randperm":
            self.permutation(made)
        elif name in TOSSES:
            site = self._site()
            level = self._level(site, SAME_SIGN)
            if level > PLAIN:
                mutations.vary_tosses(made, self.plan.kind, level, self._dice(site, made))
            self.built[MASKS] = IN_RANGE
            if self.plan.selects:
                selected_slices.toss(made, self.plan.selects, self._dice_of_slices(made))
        elif name in COUNTS:
            _tag(made, Origin(draws=self.counts(made, COUNTS[name], rates=tensors[0]), drawn=True))
        elif name == "multinomial":
            self._multinomial(made, args, kwargs)
        elif len(args) > 1:
            self._binomial(made, *args[:2])

    def _derived(self, name: str, made: torch.Tensor, origins: list[Origin], tensors: list[torch.Tensor]) -> None:
        """Pass origins on to a result; integers of `arange` become a table when they are cast to floats.

        Casting a draw or a table to integers bounds its level: the code chose a range for the integers.
        """
        if not origins:
            return
        draws = frozenset(site for origin in origins for site in origin.draws)
        tables = frozenset(site for origin in origins for site in origin.tables)
        floating = made.is_floating_point() or made.is_complex()
        if not floating and name in INTO_INTEGERS and made.dtype != torch.bool:
            self._bound(draws, IN_RANGE)
            self._bound(tables, PLAIN)
        if draws and made.dtype == torch.float16 and self.plan.kind != "plain":
            mutations.saturate(made, tensors)
        all_written = len(origins) == len(tensors) and all(origin.written for origin in origins)
        alone = len(tensors) == 1 and origins[0].constant is not None and name in LOOKS
        if alone:
            _tag(made, origins[0])
        elif floating and all_written:
            tables = self._table(made)
            self._converted |= tables
            _tag(made, Origin(tables=tables))
        elif name in BOUNDING:
            _tag(made, Origin())
        elif not floating:
            _tag(made, Origin(written=all_written))
        else:
            scaled = len(tensors) == 1 and origins[0].drawn and name in SCALINGS | MOVINGS
            if scaled and self.plan.on_grid and made.numel() and not made.is_complex():
                self._plant(made, tensors[0], moved=name in MOVINGS)
            _tag(made, Origin(draws, scaled, tables=tables))

    def _plant(self, made: torch.Tensor, source: torch.Tensor, *, moved: bool) -> None:
        """Plant numbers in a draw that was scaled or moved; a moved one keeps its distance.

        The code may use both, as the two corners of a box.
        """
        before = made.clone() if moved and made is not source else made
        mutations.plant(made, self._dice("scaled", made), self.numbers, self.long_numbers, self.plan.written)
        if before is not made and source.is_floating_point():
            source.detach().add_((made - before).to(source.dtype))

    def draw(
        self,
        made: torch.Tensor,
        *,
        from_zero: bool = False,
        site: str = "",
        most: int = FAR,
        ends: tuple[float, float] | None = None,
        unseen: bool = False,
    ) -> frozenset[str]:
        """Vary a floating draw and return its site.

        Args:
            made: the draw, changed in place.
            from_zero: whether its range includes zero as its minimum.
            site: its name; by default the place in the source.
            most: the highest level that it allows.
            ends: the least and the largest number of its range, if it has such.
            unseen: whether a comparison of its numbers is not seen.
        """
        site = site or self._site()
        level = self._level(site, most)
        self._vary_draw(made, level, site, from_zero=from_zero)
        if ends is not None and self.plan.ends and PLAIN < level < ANYWHERE:
            mutations.reach_ends(made, self.plan.kind, ends, self._dice(site, made))
        if self.plan.lasts and level > AS_MADE and site != self.plan.sparse:
            # A draw that stays plain beside a far one gets such slices within its range.
            alone = self.plan.kind == "lasting"
            how = {"moderate": self.plan.lasting >= MODERATE_TOO, "on_grid": self.plan.on_grid, "alone": alone}
            before = made.clone()
            add_lasting_slices(made, max(level, IN_RANGE), self._dice(site, made), **how)
            if self.plan.ends:
                mutations.keep_extremes(made, before)
        if unseen:
            self.built[UNSEEN_MASKS] = IN_RANGE
            if self.plan.selects:
                selected_slices.to_an_end(made, self.plan.selects, self._dice_of_slices(made))
        return frozenset({site})

    def _vary_draw(self, made: torch.Tensor, level: int, site: str, *, from_zero: bool) -> None:
        if level > PLAIN:
            opposite = self._is_opposite(level)
            dice, remote = self._dice_of_rows(site, made), self.plan.remote if level == FAR else 0
            mutations.vary_draw(made, self.plan.kind, level, dice, opposite=opposite, remote=remote)
            if self.plan.paired:
                self._pair(made, level, site)
            elif self.plan.kind in TAILED and level >= ANY_SIGN:
                self._share_slices(made, site)
        if self.plan.on_grid and level > AS_MADE:
            zero = from_zero or level >= ANYWHERE
            rows = level >= ANY_SIGN
            planted = {"numbers": self.numbers, "long_numbers": self.long_numbers, "written": self.plan.written}
            if site == self.plan.sparse:
                mutations.to_sparse_grid(made, self._dice(site, made), zero=zero, **planted)
                return
            mutations.to_grid(made, self._dice(site, made), zero=zero, rows=rows, **planted)
            if made.dim() and rows and made.is_contiguous():
                self._share_rows(made, self._dice(site, made))

    def _share_slices(self, made: torch.Tensor, site: str) -> None:
        """Give most draws with an earlier one of their shape half of its slices."""
        if made.dim() < 2 or made.numel() > mutations.MOST_AT_ONCE:
            return
        form = made.shape, made.dtype, made.device
        if form in self._tailed and mutations.Dice(self._dice(site, made)).below(SHARED_OF):
            mutations.share_slices(made, self._tailed[form])
        self._tailed.setdefault(form, made.detach().clone())

    def _pair(self, made: torch.Tensor, level: int, site: str) -> None:
        """Let products of a draw with other draws or parameters cancel.

        Every second draw has opposite neighbours, and another one of its shape is nearly equal to it: two products with
        the first draw may be compared.
        """
        if not can_pair(made):
            return
        self._pairs += 1
        dice = self._dice(site, made)
        if level < ANY_SIGN or self._pairs % 2:
            form = made.shape, made.device
            if level >= ANY_SIGN and form in self._opposite:
                made.detach().copy_(nearly(self._opposite[form], dice))
                return
            alike, within = self.plan.paired == ALIKE, level <= IN_RANGE
            pair(made, (1, -1), dice, opposite=False, alike=alike, within=within)
            return
        pair(made, (-2, -1), dice, opposite=True)
        self._opposite[made.shape, made.device] = made.detach().clone()

    def sampled(self, made: torch.Tensor, domain: Domain) -> torch.Tensor:
        """Vary a sample of one of torch's distributions, and return it."""
        made = made.contiguous()
        if domain != "rows of shares":
            _tag(made, Origin(draws=self.draw(made, from_zero=domain == "from zero"), drawn=True))
            return made
        self._varied(made, IN_RANGE, lambda one, _, dice: distribution_draws.vary_shares(one, dice))
        _tag(made, Origin())
        return made

    def _is_opposite(self, level: int) -> bool:
        """Whether a draw takes the other sign, as the plan says; of several draws, every second one."""
        if self.plan.kind not in SIGNED or level < ANY_SIGN:
            return False
        self._signed += 1
        if sum(one >= ANY_SIGN for one in self.plan.levels.values()) < 2:
            return self.plan.kind in WHOLLY_FAR and self.plan.opposed == 0
        if self.plan.opposed == ALL_OPPOSED:
            return True
        return self.plan.opposed > 0 and (self._signed + self.plan.opposed) % 2 == 0

    def _share_rows(self, made: torch.Tensor, dice: torch.Generator) -> None:
        """Copy rows of an earlier gridded draw with rows of the same length into this one."""
        form = made.dtype, made.shape[-1], made.device
        if made.dim() > 1 and made.numel() and form in self._gridded:
            mutations.share_rows(made, self._gridded[form], dice)
        self._gridded.setdefault(form, made.detach().clone())

    def integers_of(
        self, made: torch.Tensor, low: int, high: int, site: str = "", *, special: Sequence[int] = ()
    ) -> None:
        """Vary a draw of integers of `low` to `high - 1`, among them those of the source and the `special` ones."""
        wanted = (*self.integers, *special, *integers_among(self.plan.written))
        self._varied(
            made, IN_RANGE, lambda one, kind, dice: self._vary_integers(one, kind, (low, high), dice, wanted), site
        )

    def permutation(self, made: torch.Tensor) -> None:
        """Vary a random permutation."""
        self._varied(made, IN_RANGE, integer_changes.vary_permutation)

    def sample(self, made: torch.Tensor, among: int) -> None:
        """Vary a sample without replacement of the integers below `among`."""
        special = (*self.integers, *integers_among(self.plan.written))
        self._varied(
            made, IN_RANGE, lambda one, kind, dice: integer_changes.vary_sample(one, kind, among, dice, special=special)
        )

    def counts(self, made: torch.Tensor, least: int, *, rates: torch.Tensor | None = None) -> frozenset[str]:
        """Vary whole numbers from `least` on without an upper bound, except where a rate is zero; return their site."""
        site = self._site()
        level = self._level(site, FAR if made.is_floating_point() else IN_RANGE)
        if level > PLAIN:
            never = rates == 0 if rates is not None and rates is not made else None
            integer_changes.vary_counts(made, self.plan.kind, level, self._dice(site, made), least=least)
            if never is not None:
                made.masked_fill_(never, 0)
        return frozenset({site})

    def _binomial(self, made: torch.Tensor, tries: torch.Tensor, chance: torch.Tensor) -> None:
        """Vary numbers of successes where success is neither certain nor impossible."""
        if not made.numel():
            return
        before, wide = made.clone(), made.long()
        self.integers_of(wide, 0, int(tries.max()) + 1)
        varied = torch.minimum(wide.to(made.dtype), tries.to(made.dtype))
        made.copy_(torch.where((chance > 0) & (chance < 1), varied, before))

    def _multinomial(self, made: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Vary drawn classes among those with a positive weight, if these are the same in all rows."""
        given = dict(zip(("input", "num_samples", "replacement"), args, strict=False)) | kwargs
        possible = given["input"] > 0
        allowed = torch.nonzero(possible.view(-1, possible.shape[-1])[0]).flatten() if made.numel() else made
        if len(allowed) < LEAST_CLASSES or not bool((possible == possible.view(-1, possible.shape[-1])[0]).all()):
            return
        ranks = torch.searchsorted(allowed, made.contiguous())
        if given.get("replacement"):
            self.integers_of(ranks, 0, len(allowed))
        else:
            self.sample(ranks, len(allowed))
        made.copy_(allowed[ranks])

    def one(self, law: str, made: Any, again: Callable[[], Any], within: Bounds = None) -> Any:
        """Return the next of the numbers drawn one at a time from the same distribution in the same place."""

        def vary(block: torch.Tensor, form: Block, site: str) -> None:
            self._occurrences[site] += 1
            if within is not None:
                self.integers_of(block, *within, site)
            else:
                unit = law.startswith("random ")
                ends = mutations.ends_of_unit(torch.float32) if unit else None
                self.draw(block, from_zero=unit, site=site, most=_most_of(form), ends=ends, unseen=not form.becomes)

        def rare(site: str, made: Any) -> Any:
            """Return the least or the largest of many draws, which takes branches that few input sets take."""
            if self._level(site, IN_RANGE) == PLAIN:
                return made
            chance = random.Random(self.derive(f"rare {site}")).random()
            if chance < RARE:
                return min(made, *(again() for _ in range(REDRAWN)))
            return max(made, *(again() for _ in range(REDRAWN))) if chance > 1 - RARE else made

        return self.streams.next(f"{' '.join(self._places())} {law}", made, again, vary, rare)

    def written(self, data: Any, made: torch.Tensor) -> frozenset[str]:
        """Return the site of numbers drawn one at a time that became a tensor."""
        return frozenset(self.streams.becomes(data, made) & self.sites.keys())

    def _vary_integers(
        self,
        made: torch.Tensor,
        kind: Kind,
        within: tuple[int, int],
        generator: torch.Generator,
        special: Sequence[int],
    ) -> None:
        """Redraw integers, relate them to earlier draws, and let them reach the ends of their range."""
        low, high = within
        integer_changes.vary_integers(made, kind, low, high, generator, special=special, ordered=self.ordered)
        self._relate(made, kind, within, generator, special)
        self._share(made, kind, within, generator, special)
        integer_changes.reach_ends(made, kind, low, high, generator)

    def _share(
        self,
        made: torch.Tensor,
        kind: Kind,
        within: tuple[int, int],
        generator: torch.Generator,
        special: Sequence[int],
    ) -> None:
        """Make some integers equal to an earlier draw's of the same range, if an author can see that."""
        low, high = within
        earlier = self._integer_draws.setdefault((low, high, made.dtype), made)
        if earlier is made or not (made.dim() and earlier.numel()) or earlier.device != made.device:
            return
        own = integer_changes.are_seldom_equal(made, made, high - low)
        if kind in SHARING and not own and not integer_changes.are_seldom_equal(made, earlier, high - low):
            integer_changes.share_integers(made, earlier, generator, within=within, special=special)

    def _relate(
        self,
        made: torch.Tensor,
        kind: Kind,
        within: tuple[int, int],
        generator: torch.Generator,
        special: Sequence[int],
    ) -> None:
        """Relate integers to the two draws before of the same shape.

        They become sums and differences if an author would occasionally see that by chance. Integers that are all
        distinct stay so.
        """
        low, high = within
        form = made.shape, made.device
        same = [(one, range_) for one, range_ in self._last_integers if (one.shape, one.device) == form]
        self._last_integers = [(made, within), *self._last_integers][:2]
        seen = made.numel() * integer_changes.MOST_REPEATED >= high - low
        if not same or kind in {"rows", "whole"} or not made.numel():
            return
        integer_changes.meet_integers(made, [one for one, _ in same], within, generator, special=special)
        if not seen:
            return
        if not integer_changes.are_seldom_equal(made, made, high - low):
            integer_changes.relate_integers(made, [one for one, _ in same], within, generator, special=special)
        if same[0][1] == within and integer_changes.are_digits(made, within):
            integer_changes.carry_integers(made, same[0][0], within, generator)

    def _table(self, made: torch.Tensor, *, written: bool = False) -> frozenset[str]:
        """Scale a table, unless it is a mask. If its rows sum to one, permute them instead, or keep them if sorted.

        A tensor of numbers that Python computed is not a table: other values may have been computed from them too.
        """
        if written and not self._is_literal():
            return frozenset()
        if not made.numel() or bool((made == 0).all()) or _is_binary(made):
            return frozenset()
        rows = made.dim() > 0 and not made.is_complex() and _sums_to_one(made)
        if rows and _is_sorted(made):
            return frozenset()
        # On a grid, draws take exactly the source's numbers: bin edges must not change.
        change = _unchanged if self.plan.on_grid and written else _rolled if rows else mutations.vary_table
        return frozenset({self._varied(made, IN_RANGE, change)})

    def _is_literal(self) -> bool:
        """Whether the current call makes a tensor of literal numbers."""
        return not self.literals.isdisjoint(self._places()[:1])

    def _varied(
        self,
        made: torch.Tensor,
        most: int,
        change: Callable[[torch.Tensor, Kind, torch.Generator], None],
        site: str = "",
    ) -> str:
        site = site or self._site()
        if self._level(site, most) > PLAIN:
            change(made, self.plan.kind, self._dice(site, made))
        return site

    def finish(self, inputs: Any) -> Any:
        """Vary the constants that became inputs, and return the inputs.

        Constants of one number that nothing was computed from vary on their own; masks, positions and plain numbers
        only if the plan says so, since the judge finds out which of them are the same in every input set.
        """
        self._vary_constants(inputs)
        for tensor in _tensors(inputs):
            self.streams.fill(tensor)
        if not isinstance(inputs, list | tuple):
            return inputs
        flat = all(_is_flat(value) for value in inputs)
        place = itertools.count()
        varied = [self._structured(value, place) for value in inputs] if flat else inputs
        return type(inputs)(varied) if type(inputs) in {list, tuple} else inputs

    def _structured(self, value: Any, place: Iterator[int]) -> Any:
        if _are_floats(value):
            return type(value)(self._structured(one, place) for one in value)
        if isinstance(value, torch.Tensor):
            site = f"{INPUTS}{next(place)}"
            if mutations.structure(value) and self._built_level(site) > PLAIN:
                mutations.vary_structure(value, self._dice(site, value))
        elif type(value) is float and math.isfinite(value):
            site, number = f"{PLAIN_NUMBERS}{value}", next(self._plain_numbers)
            if self._built_level(site) > PLAIN and self.plan.kind in RENUMBERED:
                # Of equal numbers each becomes another.
                size = 2 ** random.Random(f"{self.plan.numbers} {site} {number}").uniform(*NUMBER_OCTAVES)
                return (value or 1.0) * size
        elif type(value) is bool or (type(value) is int and value >= 0):
            # Always the same: a problem that tolerates one integer need not tolerate another.
            site = f"{PLAIN_INTEGERS}{value}"
            level = self._built_level(site, IN_RANGE if type(value) is bool else SAME_SIGN)
            if level > PLAIN and self.plan.kind in RENUMBERED:
                return not value if type(value) is bool else other_integer(value, level)
        return value

    def _built_level(self, site: str, most: int = IN_RANGE) -> int:
        self.built[site] = most
        return self.plan.level(site, most)

    def _vary_constants(self, inputs: Any) -> None:
        for tensor in _tensors(inputs):
            origin = _origin(tensor)
            if origin is not None and origin.written:
                # The same numbers are inputs as integers too, and both forms must stay consistent.
                self._bound(frozenset(self._converted), PLAIN)
            constant = origin.constant if origin is not None else None
            most = mutations.constant_level(tensor) if constant is not None and not constant.used else PLAIN
            if constant is None or most == PLAIN:
                continue
            level = self._level(constant.site, most)
            if constant.varied is not None:
                if constant.varied.shape == tensor.shape:
                    tensor.copy_(constant.varied)
            elif level > PLAIN:
                mutations.vary_constant(tensor, level, self._dice(constant.site, tensor))
                constant.varied = tensor

    def seed_of_list(self, count: int) -> int | None:
        """Return the seed that reorders literal lists of `count` entries; None if they keep their order."""
        site = f"{LISTS}{count}"
        return self.derive(site) if self._level(site, IN_RANGE) > PLAIN else None

    def _level(self, site: str, most: int) -> int:
        self.sites[site] = min(self.sites.get(site, most), most)
        return self.plan.level(site, most)

    def _bound(self, sites: frozenset[str], most: int) -> None:
        for site in sites:
            self.sites[site] = min(self.sites[site], most)

    def _site(self) -> str:
        """Return the name of the current place in the problem's source, with the number of this draw at that place."""
        place = " ".join(self._places())
        self._occurrences[place] += 1
        return f"{place} #{min(self._occurrences[place], OCCURRENCES)}"

    def _places(self) -> list[str]:
        """Return `line:column` of the problem's frames, innermost first."""
        places: list[str] = []
        frame = sys._getframe(1)
        while frame is not None and len(places) < DEPTH:
            if frame.f_code.co_filename == self.path:
                places.append(_place(frame.f_code, frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        return places

    def _dice_of_rows(self, site: str, tensor: torch.Tensor) -> torch.Generator:
        """Return a generator that is the same for draws of one shape in half of the input sets.

        Rows of zeros then coincide in all of them: a sum of three inputs, or a product, has such a row.
        """
        together = self.plan.kind in {"rows", "tiny"} and self.plan.numbers % 2 == 1
        if not together:
            return self._dice(site, tensor)
        return torch.Generator(tensor.device).manual_seed(self.derive(f"rows of {tuple(tensor.shape)}"))

    def _dice_of_slices(self, tensor: torch.Tensor) -> torch.Generator:
        """Return a generator for the slices that masks select; half of the time the same for masks of one shape."""
        if self.plan.numbers % 2:
            return torch.Generator(tensor.device).manual_seed(self.derive(f"slices of {tuple(tensor.shape)}"))
        return self._dice(self._site(), tensor)

    def _dice(self, site: str, tensor: torch.Tensor) -> torch.Generator:
        number = sum(self._occurrences.values())
        return torch.Generator(tensor.device).manual_seed(self.derive(f"{site} {number}"))


def _is_flat(value: Any) -> bool:
    """Whether a value does not mix tensors with others, such as a tensor, a number or a list of numbers."""
    parts = value if isinstance(value, list | tuple) else ()
    return not isinstance(value, dict) and not any(isinstance(one, torch.Tensor | list | tuple | dict) for one in parts)


def other_integer(value: int, level: int) -> int:
    """Return another plain integer. Of a power of two it is none: a kernel that shifts would be right with another one.

    At `IN_RANGE`, for problems that split a size by it, half of it, or one more if that is no smaller integer.
    """
    if level == IN_RANGE:
        return value // 2 if value > 1 else value + 1
    if value <= LEAST_HALVED:
        return 2 if value == LEAST_HALVED else LEAST_HALVED
    half = value // 2
    return half if half & (half - 1) else 3 * value // 4


def _are_floats(value: Any) -> bool:
    """Whether a value is a list or tuple of floats, such as the means of channels."""
    return type(value) in {list, tuple} and bool(value) and all(type(one) is float for one in value)


_SEED_PYTHON: Final = random.seed
_SEED_NUMPY: Final = numpy.random.seed


def _ends_of(
    name: str, made: torch.Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Return the least and the largest number that a uniform draw of torch can hold; None for another draw."""
    if made.is_complex() or name not in {*FROM_ZERO, "uniform_"}:
        return None
    given = {**dict(zip(("self", "from", "to"), args, strict=False)), **kwargs} if name == "uniform_" else {}
    low, high = given.get("from", 0.0), given.get("to", 1.0)
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        return None
    least, most = mutations.ends_of_unit(made.dtype)
    return low + (high - low) * least, low + (high - low) * most


def _most_of(form: Block) -> int:
    """Return the highest level of floating numbers drawn one at a time: other values may choose a branch."""
    return FAR if form.becomes else IN_RANGE


@cache
def _place(code: CodeType, lasti: int) -> str:
    line, _, column, _ = list(code.co_positions())[lasti // 2]
    return f"{line}:{column}"


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _tensors(item)
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))


def _origin(tensor: torch.Tensor) -> Origin | None:
    found: Origin | None = vars(tensor).get("_warpsmith_origin")
    return found


def _tag(tensor: torch.Tensor, origin: Origin) -> None:
    vars(tensor)["_warpsmith_origin"] = origin


def _is_binary(tensor: torch.Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all()) and tensor.numel() > 1


def _sums_to_one(tensor: torch.Tensor) -> bool:
    sums = tensor.double().sum(-1)
    return tensor.shape[-1] > 1 and bool((tensor >= 0).all()) and bool(((sums - 1).abs() < 1e-5).all())


def _is_sorted(tensor: torch.Tensor) -> bool:
    steps = tensor.diff(dim=-1)
    return tensor.shape[-1] > 2 and bool((steps > 0).all() or (steps < 0).all())


def _unchanged(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    """Keep a table."""


def _rolled(tensor: torch.Tensor, kind: Kind, generator: torch.Generator) -> None:
    order = torch.randperm(tensor.shape[-1], generator=generator, device=generator.device)
    tensor.copy_(tensor[..., order])
