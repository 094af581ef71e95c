"""Patches the random functions of Python and NumPy, and torch's samplers, while a problem's `get_inputs` runs.

A function that returns many numbers at once has them varied before it returns. A function that returns one number is a
stream (`scalar_draws.py`). Samples, choices and shuffles vary as positions, so any objects can be drawn. Seeds that the
problem sets are mixed with the secret one.
"""

import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Protocol, cast

import numpy
import torch

from warpsmith.evaluator.reference import distribution_draws, mutations
from warpsmith.evaluator.reference.distribution_draws import Domain

Original = Callable[..., Any]
Function = Callable[[Original, tuple[Any, ...], Mapping[str, Any]], Any]
"""The replacement of a random function: given the original one and the arguments of a call, it returns the numbers."""
Bounds = tuple[int, int] | None
SIGNED_ENDS: Final = (127, 128)
"""Bytes that are the largest and the smallest number of eight bits with a sign."""
MOST_INTEGER: Final = 1 << 62
"""Wider ranges of integers are left unchanged: no integer tensor holds them all."""

PYTHON_FLOATS: Final = frozenset(
    {"random", "uniform", "gauss", "normalvariate", "expovariate", "betavariate", "gammavariate", "lognormvariate"}
    | {"vonmisesvariate", "paretovariate", "weibullvariate", "triangular"}
)
NUMPY_FLOATS: Final = frozenset(
    {"rand", "randn", "random", "random_sample", "ranf", "sample", "uniform", "normal", "standard_normal"}
    | {"exponential", "standard_exponential", "laplace", "logistic", "lognormal", "gumbel", "rayleigh", "weibull"}
    | {"beta", "gamma", "standard_gamma", "chisquare", "noncentral_chisquare", "f", "noncentral_f", "standard_t"}
    | {"standard_cauchy", "triangular", "vonmises", "wald", "pareto", "power", "multivariate_normal"}
)
NUMPY_UNIT: Final = frozenset({"rand", "random", "random_sample", "ranf", "sample"})
"""Those that draw from [0, 1)."""
NUMPY_INTEGERS: Final = frozenset({"randint", "integers"})
NUMPY_COUNTS: Final = {"poisson": 0, "negative_binomial": 0, "geometric": 1}
"""Functions that count without a bound, and their least count."""


class Drawing(Protocol):
    """What varies the numbers that these functions return; tensors change in place."""

    def draw(
        self, made: torch.Tensor, *, ends: tuple[float, float] | None = None, unseen: bool = False
    ) -> frozenset[str]: ...

    def integers_of(self, made: torch.Tensor, low: int, high: int, *, special: Sequence[int] = ()) -> None: ...

    def counts(self, made: torch.Tensor, least: int) -> frozenset[str]: ...

    def sample(self, made: torch.Tensor, among: int) -> None: ...

    def permutation(self, made: torch.Tensor) -> None: ...

    def one(self, law: str, made: Any, again: Callable[[], Any], within: Bounds = None) -> Any: ...

    def written(self, data: Any, made: torch.Tensor) -> frozenset[str]: ...

    def sampled(self, made: torch.Tensor, domain: Domain) -> torch.Tensor: ...

    def asked(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]: ...

    def derive(self, key: str) -> int: ...

    def restart(self, key: object) -> None: ...

    def seed_torch(self, seed: int) -> torch.Generator: ...


class _Idle:
    """Between runs: generators that a problem's module keeps return their draws unchanged."""

    def draw(
        self, made: torch.Tensor, *, ends: tuple[float, float] | None = None, unseen: bool = False
    ) -> frozenset[str]:
        return frozenset()

    def integers_of(self, made: torch.Tensor, low: int, high: int, *, special: Sequence[int] = ()) -> None: ...

    def counts(self, made: torch.Tensor, least: int) -> frozenset[str]:
        return frozenset()

    def sample(self, made: torch.Tensor, among: int) -> None: ...

    def permutation(self, made: torch.Tensor) -> None: ...

    def one(self, law: str, made: Any, again: Callable[[], Any], within: Bounds = None) -> Any:
        return made

    def written(self, data: Any, made: torch.Tensor) -> frozenset[str]:
        return frozenset()

    def sampled(self, made: torch.Tensor, domain: Domain) -> torch.Tensor:
        return made

    def asked(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, dict(kwargs)

    def derive(self, key: str) -> int:
        return zlib.crc32(key.encode())

    def restart(self, key: object) -> None: ...

    def seed_torch(self, seed: int) -> torch.Generator:
        return torch.random.manual_seed(seed)


_IDLE: Final[Drawing] = _Idle()


class _Current:
    """Stands for the drawing of the current run, so that functions and classes are made once per process."""

    def __init__(self) -> None:
        self.drawing = _IDLE

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drawing, name)


@cache
def patches() -> "Patches":
    """Return this process's patches: making them takes longer than most problems' inputs do."""
    return Patches()


class Patches:
    """The replacements of the functions, for one run after another."""

    def __init__(self) -> None:
        self._current = _Current()
        self._drawing: Drawing = cast("Drawing", self._current)
        self._inside = self._sampling = False
        self._replaced: dict[object, tuple[Any, Any]] = {}
        self._places: list[tuple[Any, str, Any]] = []
        drawing = self._drawing
        python, numbers = _python_functions(drawing), _numpy_functions(drawing)
        self._python = self._subclass(random.Random, python, {"seed": _seed_python(drawing)})
        self._generators = self._subclass(numpy.random.Generator, numbers, {})
        self._states = self._subclass(numpy.random.RandomState, numbers, {"__init__": _seed_state(drawing)})
        self._replace_seeds()
        self._replace_all(random, python)
        self._replace_all(numpy.random, numbers)
        self._places += [(owner, name, self._sampler(method)) for owner, name, method in distribution_draws.methods()]

    @contextmanager
    def serving(self, drawing: Drawing) -> Iterator[None]:
        """Replace the functions in this context; `drawing` varies their numbers."""
        self._current.drawing = drawing
        before: list[tuple[Any, str, Any]] = []
        try:
            for owner, name, value in self._places:
                before.append((owner, name, getattr(owner, name)))
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in reversed(before):
                setattr(owner, name, value)
            # It may hold large tensors.
            self._current.drawing = _IDLE

    def rebind(self, names: dict[str, Any]) -> None:
        """Replace what a module already holds: `from random import gauss`, `rng = numpy.random.default_rng(0)`."""
        for name, value in names.items():
            if type(value) in {_PYTHON, _GENERATOR, _STATE}:
                names[name] = self._own_generator(name, value)
            elif callable(value):
                names[name] = self._replaced.get(_key(value), (value, value))[1]

    def _own_generator(self, name: str, value: Any) -> Any:
        if type(value) is _PYTHON:
            return self._python(name)
        return self._default_rng(name) if type(value) is _GENERATOR else self._states(name)

    def _replace_seeds(self) -> None:
        drawing = self._drawing
        for owner in (torch, torch.random, torch.cuda):
            self._replace(owner, "manual_seed", self._seed_torch)
        self._replace(torch.cuda, "manual_seed_all", self._restart)
        self._replace(random, "seed", lambda a=None, version=2: drawing.restart(a))
        self._replace(numpy.random, "seed", self._restart)
        self._replace(random, "Random", self._python)
        self._replace(numpy.random, "default_rng", self._default_rng)
        self._replace(numpy.random, "RandomState", self._states)
        # Arrays of numbers that were drawn one at a time are recognised, as are tensors of them.
        for name in ("array", "asarray"):
            self._replace(numpy, name, _array(drawing, getattr(numpy, name)))

    def _seed_torch(self, seed: int) -> torch.Generator:
        return self._drawing.seed_torch(seed)

    def _restart(self, seed: object = None) -> None:
        self._drawing.restart(seed)

    def _default_rng(self, seed: Any = None) -> Any:
        return self._generators(numpy.random.PCG64(self._drawing.derive(f"default_rng {seed}")))

    def _replace_all(self, module: Any, functions: Mapping[str, Function]) -> None:
        for name in sorted(functions.keys() & vars(module).keys()):
            self._replace(module, name, self._caught(functions[name], getattr(module, name)))

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        original = getattr(owner, name)
        self._replaced[_key(original)] = original, value
        self._places.append((owner, name, value))

    def _subclass(self, base: type, functions: Mapping[str, Function], others: Mapping[str, Any]) -> Callable[..., Any]:
        """Return a subclass of a generator class whose draws are intercepted."""
        methods = {name: self._method(functions[name], getattr(base, name)) for name in _common(base, functions)}
        return type(base.__name__, (base,), {**methods, **others})

    def _method(self, function: Function, original: Original) -> Original:
        def method(own: Any, *args: Any, **kwargs: Any) -> Any:
            bound = self._caught(function, lambda *a, **k: original(own, *a, **k))
            return bound(*args, **kwargs)

        return method

    def _sampler(self, original: Original) -> Original:
        """Wrap a method that samples; if its samples vary as a whole, what they are computed from does not.

        In no case do samples vary from which another sampler computes its own.
        """

        def sample(own: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or self._sampling:
                return original(own, *args, **kwargs)
            domain = distribution_draws.domain_of(own)
            self._sampling, self._inside = True, domain is not None
            try:
                if domain is None:
                    return original(own, *args, **kwargs)
                args, kwargs = self._drawing.asked("rand", *distribution_draws.shaped(args, kwargs))
                with torch._C.DisableTorchFunction():
                    return self._drawing.sampled(original(own, *args, **kwargs), domain)
            finally:
                self._sampling = self._inside = False

        return sample

    def _caught(self, function: Function, original: Original) -> Original:
        """Wrap a random function; the random functions it calls are not varied separately."""

        def draw(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(*args, **kwargs)
            self._inside = True
            try:
                with torch._C.DisableTorchFunction():
                    return function(original, args, kwargs)
            finally:
                self._inside = False

        return draw


_PYTHON: Final = random.Random
_GENERATOR: Final = numpy.random.Generator
_STATE: Final = numpy.random.RandomState


def _seed_python(drawing: Drawing) -> Original:
    def seed(own: random.Random, a: Any = None, version: int = 2) -> None:
        _PYTHON.seed(own, drawing.derive(f"Random {a}"))

    return seed


def _seed_state(drawing: Drawing) -> Original:
    def start(own: numpy.random.RandomState, seed: Any = None) -> None:
        _STATE.__init__(own, drawing.derive(f"RandomState {seed}") % (1 << 32))

    return start


def _key(function: Any) -> object:
    """Return a key that identifies a function; each access of a bound method makes another object."""
    own = getattr(function, "__self__", None)
    return id(function) if own is None else (id(own), getattr(function, "__name__", ""))


def _common(base: type, functions: Mapping[str, Function]) -> list[str]:
    return sorted(functions.keys() & _names(base))


@cache
def _names(base: type) -> frozenset[str]:
    return frozenset(dir(base))


def _array(drawing: Drawing, original: Original) -> Original:
    def array(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if args and isinstance(args[0], list | tuple) and made.dtype.kind in "fiu":
            with torch._C.DisableTorchFunction():
                drawing.written(args[0], torch.from_numpy(made))
        return made

    return array


def _python_functions(drawing: Drawing) -> dict[str, Function]:
    """Return the replacements of the functions of `random`, by name."""

    def number(name: str) -> Function:
        return lambda draw, args, kwargs: drawing.one(
            f"{name} {args} {kwargs}", draw(*args, **kwargs), lambda: draw(*args, **kwargs)
        )

    def integer(values_of: Callable[..., range], name: str) -> Function:
        def draw_one(draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            args, kwargs = drawing.asked(name, args, kwargs)
            made, values = draw(*args, **kwargs), values_of(*args, **kwargs)
            if abs(values[-1] - values[0]) >= MOST_INTEGER:
                return made
            again = lambda: values.index(draw(*args, **kwargs))  # noqa: E731
            return values[drawing.one(str(values), values.index(made), again, (0, len(values)))]

        return draw_one

    functions = {name: number(name) for name in PYTHON_FLOATS}
    functions["randint"] = integer(lambda a, b: range(a, b + 1), "randint")
    functions["randrange"] = integer(_range, "randrange")
    functions["getrandbits"] = integer(lambda k: range(1 << k), "getrandbits")
    many = _PythonPositions(drawing)
    return functions | {
        "choice": many.choice,
        "choices": many.choices,
        "sample": many.sample,
        "shuffle": many.shuffle,
        "randbytes": many.randbytes,
    }


def _range(start: int, stop: int | None = None, step: int = 1) -> range:
    return range(start) if stop is None else range(start, stop, step)


class _PythonPositions:
    """Replacements of the functions of `random` that choose among given objects, or return many numbers."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing

    def choice(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        objects = args[0] if args else kwargs["seq"]
        if not len(objects):
            return draw(*args, **kwargs)
        positions = range(len(objects))
        return objects[self._drawing.one(f"{positions}", draw(positions), lambda: draw(positions), (0, len(positions)))]

    def choices(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        objects, *rest = args if args else (kwargs["population"],)
        others = {name: value for name, value in kwargs.items() if name != "population"}
        places = torch.tensor(draw(range(len(objects)), *rest, **others), dtype=torch.int64)
        weights = others.get("weights", rest[0] if rest else None)
        cumulated = others.get("cum_weights")
        if cumulated is not None:
            weights = numpy.diff(numpy.asarray(cumulated), prepend=0)
        allowed = torch.arange(len(objects)) if weights is None else _support(torch.tensor(list(weights)))
        _vary_choices(self._drawing, places, allowed)
        return [objects[place] for place in places.tolist()]

    def sample(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        objects, *rest = args if args else (kwargs["population"],)
        others = {name: value for name, value in kwargs.items() if name != "population"}
        if others.get("counts") is not None or not isinstance(objects, Sequence):
            return draw(*args, **kwargs)
        places = torch.tensor(draw(range(len(objects)), *rest, **others), dtype=torch.int64)
        self._drawing.sample(places, len(objects))
        return [objects[place] for place in places.tolist()]

    def shuffle(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        objects = args[0] if args else kwargs["x"]
        order = list(range(len(objects)))
        draw(order)
        _reorder(self._drawing, objects, torch.tensor(order, dtype=torch.int64))

    def randbytes(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        numbers = torch.tensor(list(draw(*args, **kwargs)), dtype=torch.int64)
        self._drawing.integers_of(numbers, 0, 256, special=SIGNED_ENDS)
        return bytes(numbers.tolist())


def _support(weights: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(weights > 0).flatten()


def _vary_choices(drawing: Drawing, places: torch.Tensor, allowed: torch.Tensor) -> None:
    """Vary positions, which may repeat, among the allowed ones."""
    if places.numel() and len(allowed) > 1:
        ranks = torch.searchsorted(allowed, places)
        drawing.integers_of(ranks, 0, len(allowed))
        places.copy_(allowed[ranks])


def _reorder(drawing: Drawing, objects: Any, order: torch.Tensor) -> None:
    """Put a list or the rows of an array in an order, after varying the order."""
    drawing.permutation(order)
    if isinstance(objects, torch.Tensor):
        before: Any = objects.clone()
    else:
        before = objects.copy() if isinstance(objects, numpy.ndarray) else list(objects)
    for place, source in enumerate(order.tolist()):
        objects[place] = before[source]


def _numpy_functions(drawing: Drawing) -> dict[str, Function]:
    """Return the replacements of the functions of `numpy.random`, by name."""

    def varied(
        name: str, vary: Callable[[torch.Tensor, tuple[Any, ...], Mapping[str, Any]], Any], kinds: str
    ) -> Function:
        def draw_some(draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            args, kwargs = drawing.asked(name, args, kwargs)
            made = draw(*args, **kwargs)
            if isinstance(made, numpy.ndarray):
                if made.size and made.dtype.kind in kinds:
                    vary(torch.from_numpy(made), args, kwargs)
                return made
            low, high = bounds(args, kwargs) if name in NUMPY_INTEGERS else (0, None)
            if not isinstance(made, float | numpy.floating) and high is None:
                return made
            limits = None if high is None else (low, high)
            return drawing.one(f"{name} {args} {kwargs}", made, lambda: draw(*args, **kwargs), limits)

        return draw_some

    functions = {
        name: varied(name, lambda made, *_: drawing.draw(made, unseen=True), "f") for name in NUMPY_FLOATS - NUMPY_UNIT
    }
    # Many problems cast them to single precision, in which the last double below one is one.
    ends = mutations.ends_of_unit(torch.float32)
    functions |= {
        name: varied(name, lambda made, *_: drawing.draw(made, ends=ends, unseen=True), "f") for name in NUMPY_UNIT
    }
    for name in NUMPY_INTEGERS:
        functions[name] = varied(name, lambda made, args, kwargs: _vary_within(drawing, made, args, kwargs), "i")
    for name, least in NUMPY_COUNTS.items():
        functions[name] = varied(name, lambda made, *_, least=least: drawing.counts(made, least), "i")
    functions["binomial"] = varied("binomial", lambda *given: _vary_binomial(drawing, *given), "i")
    many = _NumpyPositions(drawing)
    return functions | {"choice": many.choice, "permutation": many.permutation, "shuffle": many.shuffle}


def _vary_within(drawing: Drawing, made: torch.Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    low, high = bounds(args, kwargs)
    if high is not None:
        drawing.integers_of(made, low, high)


def _vary_binomial(drawing: Drawing, made: torch.Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Vary counts of successes, if the number of tries is plain and success is neither certain nor impossible."""
    tries = args[0] if args else kwargs["n"]
    chance = args[1] if len(args) > 1 else kwargs["p"]
    if type(tries) is int and isinstance(chance, float) and 0 < chance < 1:
        drawing.integers_of(made, 0, tries + 1)


class _NumpyPositions:
    """Replacements of the functions of `numpy.random` that choose among given objects, or reorder them."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing

    def choice(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        given = dict(zip(("a", "size", "replace", "p"), args, strict=False)) | dict(kwargs)
        objects, rest = given.pop("a"), given
        count = objects if isinstance(objects, int | numpy.integer) else len(objects)
        if rest.get("axis") or len(args) > len(("a", "size", "replace", "p")) or count < 1:
            return draw(*args, **kwargs)
        made = draw(int(count), **rest)
        if not isinstance(made, numpy.ndarray):
            place = self._drawing.one(
                f"choice of {count}", int(made), lambda: int(draw(int(count), **rest)), (0, int(count))
            )
            return type(made)(place) if objects is count else numpy.asarray(objects)[place]
        self._vary_places(torch.from_numpy(made), int(count), rest)
        return made if objects is count else numpy.asarray(objects)[made]

    def _vary_places(self, places: torch.Tensor, count: int, rest: Mapping[str, Any]) -> None:
        if not rest.get("replace", True):
            self._drawing.sample(places, count)
            return
        chances = rest.get("p")
        allowed = torch.arange(count) if chances is None else _support(torch.as_tensor(numpy.asarray(chances)))
        _vary_choices(self._drawing, places, allowed)

    def permutation(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        objects = args[0] if args else kwargs["x"]
        if len(args) + len(kwargs) > 1:
            return draw(*args, **kwargs)
        is_count = isinstance(objects, int | numpy.integer)
        made = draw(int(objects) if is_count else len(objects))
        self._drawing.permutation(torch.from_numpy(made))
        return made if is_count else numpy.asarray(objects)[made]

    def shuffle(self, draw: Original, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        objects = args[0] if args else kwargs["x"]
        if len(args) + len(kwargs) > 1:
            draw(*args, **kwargs)
            return
        order = numpy.arange(len(objects))
        draw(order)
        _reorder(self._drawing, objects, torch.from_numpy(order))


def bounds(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the bounds of an integer draw, upper one exclusive; the upper one is None if they are not plain ints."""
    integers: list[Any] = [value for value in args if type(value) is int][:2]
    low, high = kwargs.get("low", kwargs.get("from")), kwargs.get("high", kwargs.get("to"))
    if low is None:
        low = integers.pop(0) if integers else 0
    if high is None:
        low, high = (low, integers.pop(0)) if integers else (0, low)
    if type(low) is not int or type(high) is not int:
        return 0, None
    return low, high + bool(kwargs.get("endpoint"))
