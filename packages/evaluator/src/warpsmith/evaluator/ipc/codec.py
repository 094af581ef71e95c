"""Values in frames: trees of plain values and tensor slots as tagged bytes. Never pickle: decoding runs no code.

A value is one tag byte and a body, little-endian. Lengths and counts are u32, checked against what is left of the
payload before anything is allocated; depth and the number of items are bounded.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.tensor_slots import ITEM_BYTES, MAX_RANK, TensorSlot

MAX_DEPTH: Final = 32
MAX_ITEMS: Final = 200_000
MAX_INT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class DType:
    """A torch dtype by name (`float32`), as a value in a tree."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """A value with named fields, as a value in a tree; nothing here makes an object of it.

    Attributes:
        kind: such as `dataclass`, for the code that rebuilds it.
        name: of its class.
        fields: its fields by name, in their order.
        others: attributes that are not fields.
    """

    kind: str
    name: str
    fields: dict[str, Any]
    others: dict[str, Any]


Value = (
    None | bool | int | float | str | bytes | list[Any] | tuple[Any, ...] | dict[str, Any] | DType | Record | TensorSlot
)

_U32: Final = struct.Struct("<I")
_F64: Final = struct.Struct("<d")


def encode(value: Value) -> bytes:
    """Encode `value`; WireError for an unsupported type, or a tree that is too deep or too large."""
    out = bytearray()
    _Encoder(out).value(value, 0)
    return bytes(out)


def decode(payload: bytes | memoryview) -> Value:
    """Decode the one value in `payload`; WireError for any other bytes."""
    decoder = _Decoder(memoryview(payload))
    value = decoder.value(0)
    if decoder.remaining():
        raise WireError(f"{decoder.remaining()} bytes follow the value; none were expected.")
    return value


class _Encoder:
    def __init__(self, out: bytearray) -> None:
        self.out = out
        self.items = 0

    def value(self, value: Value, depth: int) -> None:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise WireError(f"A value is deeper than {MAX_DEPTH} or has more than {MAX_ITEMS} items.")
        match value:
            case None:
                self.out += b"n"
            case bool():
                self.out += b"t" if value else b"f"
            case int():
                self._bytes(b"i", _int_bytes(value))
            case float():
                self.out += b"d" + _F64.pack(value)
            case str():
                self._bytes(b"s", value.encode("utf-8", "surrogatepass"))
            case bytes():
                self._bytes(b"b", value)
            case list() | tuple():
                self._sequence(b"l" if isinstance(value, list) else b"u", value, depth)
            case dict():
                self._mapping(value, depth)
            case DType() | Record() | TensorSlot():
                self._own(value, depth)
            case _:
                raise WireError(
                    f"A value of type {type(value).__name__} cannot be sent to another process.",
                    "Use None, bool, int, float, str, bytes, list, tuple, dict with string keys, records, dtypes, "
                    "tensors.",
                )

    def _bytes(self, tag: bytes, body: bytes) -> None:
        self.out += tag + _U32.pack(len(body)) + body

    def _sequence(self, tag: bytes, values: list[Any] | tuple[Any, ...], depth: int) -> None:
        self.out += tag + _U32.pack(len(values))
        for item in values:
            self.value(item, depth + 1)

    def _mapping(self, values: dict[str, Any], depth: int) -> None:
        self.out += b"m" + _U32.pack(len(values))
        for key, item in values.items():
            if not isinstance(key, str):
                raise WireError(
                    f"A dict key of type {type(key).__name__} cannot be sent to another process; only strings can."
                )
            self.value(key, depth + 1)
            self.value(item, depth + 1)

    def _own(self, value: DType | Record | TensorSlot, depth: int) -> None:
        match value:
            case DType():
                self._bytes(b"y", value.name.encode())
            case Record():
                self.out += b"r"
                for part in (value.kind, value.name, value.fields, value.others):
                    self.value(part, depth + 1)
            case TensorSlot():
                self._slot(value)

    def _slot(self, slot: TensorSlot) -> None:
        name = slot.dtype.encode()
        numbers = (slot.offset, *slot.shape, *slot.stride)
        self.out += b"T" + bytes([len(name)]) + name + bytes([len(slot.shape)])
        self.out += struct.pack(f"<{len(numbers)}q", *numbers)


def _int_bytes(value: int) -> bytes:
    body = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    if len(body) > MAX_INT_BYTES:
        raise WireError(f"An integer of {len(body)} bytes; at most {MAX_INT_BYTES} were expected.")
    return body


class _Decoder:
    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.size = len(view)
        self.at = 0
        self.items = 0

    def remaining(self) -> int:
        return self.size - self.at

    def value(self, depth: int) -> Value:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise WireError(f"A value is deeper than {MAX_DEPTH} or has more than {MAX_ITEMS} items.")
        tag = self.view[self._skip(1)]
        reader = _READERS.get(tag)
        if reader is None:
            raise WireError(f"Unknown tag {bytes([tag])!r} at byte {self.at - 1}.")
        return reader(self, depth)

    def _skip(self, count: int) -> int:
        """Go past the next bytes, and return where they begin."""
        begin = self.at
        if count > self.size - begin:
            raise WireError(f"{count} bytes were promised at byte {begin}, {self.size - begin} remain.")
        self.at = begin + count
        return begin

    def _take(self, count: int) -> memoryview:
        begin = self._skip(count)
        return self.view[begin : self.at]

    def _length(self) -> int:
        length: int = _U32.unpack_from(self.view, self._skip(4))[0]
        return length

    def _float(self, _depth: int) -> float:
        number: float = _F64.unpack_from(self.view, self._skip(8))[0]
        return number

    def _bytes(self, _depth: int) -> bytes:
        return bytes(self._take(self._length()))

    def _int(self, _depth: int) -> int:
        length = self._length()
        if length > MAX_INT_BYTES:
            raise WireError(f"An integer of {length} bytes; at most {MAX_INT_BYTES} were expected.")
        return int.from_bytes(self._take(length), "little", signed=True)

    def _text(self, _depth: int) -> str:
        try:
            return str(self._take(self._length()), "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise WireError(f"A string is not UTF-8: {error}.") from error

    def _list(self, depth: int) -> list[Value]:
        count = self._length()
        if count > self.remaining():
            raise WireError(f"{count} items were promised, {self.remaining()} bytes remain.")
        return [self.value(depth + 1) for _ in range(count)]

    def _tuple(self, depth: int) -> tuple[Value, ...]:
        return tuple(self._list(depth))

    def _mapping(self, depth: int) -> dict[str, Value]:
        count = self._length()
        if count * 2 > self.remaining():
            raise WireError(f"{count} entries were promised, {self.remaining()} bytes remain.")
        result: dict[str, Value] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            if not isinstance(key, str) or key in result:
                raise WireError(f"A dict key must be a string that occurs once; got {key!r:.40}.")
            result[key] = self.value(depth + 1)
        return result

    def _dtype(self, depth: int) -> DType:
        name = self._text(depth)
        if name not in ITEM_BYTES:
            raise WireError(f"Unknown dtype {name!r:.40}.")
        return DType(name)

    def _record(self, depth: int) -> Record:
        match [self.value(depth + 1) for _ in range(4)]:
            case [str(kind), str(name), dict(fields), dict(others)]:
                return Record(kind, name, fields, others)
            case _:
                raise WireError("A record must have a kind, a name, fields and other attributes.")

    def _slot(self, _depth: int) -> TensorSlot:
        name = str(self._take(self.view[self._skip(1)]), "ascii", "replace")
        rank = self.view[self._skip(1)]
        if name not in ITEM_BYTES or rank > MAX_RANK:
            raise WireError(f"A tensor slot of dtype {name!r:.40} and rank {rank} is outside the format.")
        numbers = struct.unpack(f"<{1 + 2 * rank}q", self._take(8 * (1 + 2 * rank)))
        return TensorSlot(name, numbers[1 : 1 + rank], numbers[1 + rank :], numbers[0])


_READERS: Final[dict[int, Callable[[_Decoder, int], Value]]] = {
    ord("n"): lambda _, __: None,
    ord("t"): lambda _, __: True,
    ord("f"): lambda _, __: False,
    ord("i"): _Decoder._int,
    ord("d"): _Decoder._float,
    ord("s"): _Decoder._text,
    ord("b"): _Decoder._bytes,
    ord("l"): _Decoder._list,
    ord("u"): _Decoder._tuple,
    ord("m"): _Decoder._mapping,
    ord("y"): _Decoder._dtype,
    ord("r"): _Decoder._record,
    ord("T"): _Decoder._slot,
}
"""What reads the body after each tag."""


def slots(tree: Value) -> Iterator[TensorSlot]:
    """Yield the tensor slots of a tree from left to right."""
    match tree:
        case TensorSlot():
            yield tree
        case list() | tuple():
            for item in tree:
                yield from slots(item)
        case dict():
            for item in tree.values():
                yield from slots(item)
        case Record():
            yield from slots([tree.fields, tree.others])


def replace_slots(tree: Value, replacements: Iterator[Any]) -> Any:
    """Return a copy of `tree` whose tensor slots are replaced, from left to right, by `replacements`."""
    match tree:
        case TensorSlot():
            return next(replacements)
        case list():
            return [replace_slots(item, replacements) for item in tree]
        case tuple():
            return tuple(replace_slots(item, replacements) for item in tree)
        case dict():
            return {key: replace_slots(item, replacements) for key, item in tree.items()}
        case Record():
            fields, others = replace_slots([tree.fields, tree.others], replacements)
            return Record(tree.kind, tree.name, fields, others)
        case _:
            return tree


class Fields:
    """Typed access to a decoded message: a field that is missing or of another type raises WireError."""

    def __init__(self, value: Value) -> None:
        if not isinstance(value, dict):
            raise WireError(f"A message must be a dict of fields; got {type(value).__name__}.")
        self._values: Mapping[str, Any] = value

    def _get(self, name: str, kind: type | tuple[type, ...]) -> Any:
        value = self._values.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise WireError(f"Field {name!r} of a message is {type(value).__name__}; expected {kind}.")
        return value

    def has(self, name: str) -> bool:
        """Whether the message has a field of that name, for those that a sender may leave out."""
        return name in self._values

    def text(self, name: str, limit: int = 1 << 24) -> str:
        value: str = self._get(name, str)
        return value[:limit]

    def content(self, name: str) -> bytes:
        value: bytes = self._get(name, bytes)
        return value

    def integer(self, name: str) -> int:
        value: int = self._get(name, int)
        return value

    def number(self, name: str) -> float:
        return float(self._get(name, (int, float)))

    def flag(self, name: str) -> bool:
        value: bool = self._get(name, bool)
        return value

    def texts(self, name: str, limit: int = 1000) -> list[str]:
        values = self._get(name, list)
        if len(values) > limit or not all(isinstance(item, str) for item in values):
            raise WireError(f"Field {name!r} of a message must be at most {limit} strings.")
        return list(values)

    def mapping(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = self._get(name, dict)
        return value

    def sequence(self, name: str, limit: int = 100_000) -> list[Any]:
        value: list[Any] = self._get(name, list)
        if len(value) > limit:
            raise WireError(f"Field {name!r} of a message has {len(value)} items; at most {limit} were expected.")
        return value

    def slot_map(self, name: str) -> dict[str, TensorSlot]:
        values = self.mapping(name)
        if not all(isinstance(item, TensorSlot) for item in values.values()):
            raise WireError(f"Field {name!r} of a message must map names to tensors.")
        return dict(values)

    def value(self, name: str) -> Value:
        if name not in self._values:
            raise WireError(f"Field {name!r} of a message is missing.")
        value: Value = self._values[name]
        return value
