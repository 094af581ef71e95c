"""Records are made again in another process as they were: their fields, their kind, what is equal to what."""

import argparse
import dataclasses
import enum
import functools
import string
from collections import namedtuple
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.devices import records, tensor_views
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec


def sent(value: Any) -> Any:
    """Return what another process makes of a value."""
    found: list[torch.Tensor] = []
    tree = tensor_views.describe(value, found, keep_records=True)
    left = iter(found)
    return tensor_views.materialise(codec.decode(codec.encode(tree)), lambda slot: next(left))


class Activation(enum.Enum):
    RELU = "relu"
    GELU = "gelu"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(enum.StrEnum):
    SUM = "sum"


@dataclasses.dataclass
class Config:
    width: int = 32
    heads: int = 4
    act: Activation = Activation.RELU
    BASES: ClassVar[tuple[int, ...]] = (2, 3)

    def __post_init__(self) -> None:
        self.scale = 0.5

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def broken(self) -> int:
        raise RuntimeError("no such thing")

    def twice(self) -> int:
        return 2 * self.width


@dataclasses.dataclass(frozen=True)
class Pinned:
    sizes: tuple[int, ...] = (1, 2)


class Point(NamedTuple):
    x: float
    y: float = 2.0

    @property
    def norm(self) -> float:
        return abs(self.x) + abs(self.y)


class Plain:
    vocabulary = 50

    def __init__(self, width: int) -> None:
        self.width = width


class Derived(Plain):
    depth = 3


class Slotted:
    __slots__ = ()


class Callable_(Plain):
    def __call__(self, x: Any) -> Any:
        return x


def test_a_dataclass_keeps_fields_properties_and_what_dataclasses_can_do():
    found = sent(Config(64))
    assert (found.width, found.heads, found.head_width, found.scale, found.BASES) == (64, 4, 16, 0.5, (2, 3))
    assert (found.act.name, found.act.value) == ("RELU", "relu")
    assert found == sent(Config(64)) != sent(Config(32))
    assert type(found).__name__ == "Config"
    assert dataclasses.asdict(found)["width"] == 64
    assert dataclasses.replace(found, width=8).width == 8
    assert [field.name for field in dataclasses.fields(found)] == ["width", "heads", "act"]
    assert not hasattr(found, "twice")
    found.width = 3
    assert hash(sent(Pinned())) == hash(sent(Pinned()))
    with pytest.raises(dataclasses.FrozenInstanceError):
        sent(Pinned()).sizes = ()


def test_named_tuples_namespaces_and_plain_objects_keep_their_attributes():
    point = sent([Point(1.0), (1.0, 2.0)])
    assert (point[0].y, point[0].norm, point[0]._replace(x=5.0).x) == (2.0, 3.0, 5.0)
    assert point[0] == point[1]
    assert not hasattr(point[1], "_fields")
    assert sent(SimpleNamespace(a=1, b=[2, SimpleNamespace(c=3)])).b[1].c == 3
    assert sent(SimpleNamespace(a=1)) == sent(SimpleNamespace(a=1)) == SimpleNamespace(a=1)
    assert vars(sent(argparse.Namespace(rate=0.1))) == {"rate": 0.1}
    plain = sent(Derived(7))
    assert (plain.width, plain.depth, plain.vocabulary, type(plain).__name__) == (7, 3, 50, "Derived")
    assert len({plain, sent(Derived(7))}) == 2


def test_members_of_enumerations_are_members_again():
    assert sent(Level.HIGH) == 5
    assert (sent(Level.HIGH).name, sent(Level.HIGH) + 1) == ("HIGH", 6)
    assert sent(Mode.SUM) == "sum"
    assert f"{sent(Mode.SUM)}" == "sum"
    assert sent(Activation.GELU) is sent(Activation.GELU)
    assert sent(Activation.GELU) != sent(Activation.RELU)


def test_tensors_and_dtypes_lie_in_records_at_any_depth():
    taps = torch.arange(3.0)
    found = sent({"config": Point(taps, (SimpleNamespace(dtype=torch.float16, more=[taps + 1]),))})
    assert torch.equal(found["config"].x, taps)
    assert found["config"].y[0].dtype is torch.float16
    assert torch.equal(found["config"].y[0].more[0], taps + 1)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Slotted(),
        Callable_(3),
        functools.partial(max, 3),
        torch.nn.ReLU(),
        len,
        Config,
        SimpleNamespace(run=len),
        Point({1, 2}),
        Plain(object()),  # type: ignore[arg-type]
        lambda: 3,
    ],
)
def test_what_has_code_of_its_own_is_refused(value):
    with pytest.raises(WireError, match="cannot be sent"):
        sent(value)


def test_outputs_have_no_records():
    """They are compared part by part, in a form of their own."""
    assert type(tensor_views.describe(Point(1.0), [])) is tuple
    assert type(tensor_views.describe(Level.LOW, [])) is not codec.Record


names = st.text(string.ascii_letters, min_size=1, max_size=6)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=3).map(lambda fields: SimpleNamespace(**fields))
        | st.dictionaries(names.map("f_{}".format), inner, min_size=1, max_size=3).map(
            lambda fields: dataclasses.make_dataclass("Made", list(fields))(*fields.values())
        )
        | st.dictionaries(names.map("f_{}".format), inner, min_size=1, max_size=3).map(
            lambda fields: namedtuple("Made", fields)(*fields.values())
        )
    ),
    max_leaves=12,
)


@given(trees)
def test_what_is_sent_shows_as_it_did(value):
    assert repr(sent(value)) == repr(value)


kinds = st.sampled_from(sorted(records._MAKERS)) | st.text(max_size=5)
texts = st.text(max_size=5) | st.sampled_from(["__class__", "__dict__", "def", "self", "a b", "_x", "name", "mixed"])
fields = st.dictionaries(texts, leaves | st.lists(leaves, max_size=2), max_size=4)


@given(st.builds(codec.Record, kinds, texts, fields, fields))
def test_any_record_of_a_peer_is_an_object_or_a_wire_error(record):
    try:
        found = tensor_views.materialise(codec.decode(codec.encode(record)), lambda slot: torch.zeros(()))
    except WireError as error:
        assert error.message
        return
    assert type(found).__name__ == record.name
