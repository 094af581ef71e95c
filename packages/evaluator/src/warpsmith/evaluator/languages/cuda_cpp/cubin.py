"""Reads a cubin: its kernels with the layout of their parameters, and what they use. Importable without torch.

A cubin is an ELF file. Each kernel has a section `.text.NAME`, and a section `.nv.info.NAME` of attributes: a byte for
the format, a byte for the kind, and two bytes of value or length.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_ATTRIBUTE: Final = struct.Struct("<BBH")
_PARAMETER: Final = struct.Struct("<IHHI")
_SIZED: Final = 4
"""Format of an attribute whose value follows; the last two bytes are then its length."""
_PARAMETER_KIND: Final = 0x17
_MOST_THREADS_KIND: Final = 0x05
_CLUSTER_KIND: Final = 0x3D
_FRAME_KIND: Final = 0x11
_REGISTERS_KIND: Final = 0x2F
_SIZE_SHIFT: Final = 18
_SYMTAB: Final = 2
_SYMBOL: Final = struct.Struct("<IBBHQQ")
RESERVED_SHARED_BYTES: Final = 1024
"""What the driver keeps of a block's shared memory; since sm_90 a kernel's own section counts it."""
FIRST_COUNTED: Final = 90


_MANGLED: Final = re.compile(r"_ZL?(\d+)(\w+)")


class CubinError(ValueError):
    """Bytes that are not a cubin, or one of an unknown form."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: where it lies in the parameter block, and its size, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Kernel:
    """What a cubin says about a kernel.

    Attributes:
        parameters: in order.
        registers: of a thread.
        shared_bytes: static shared memory of a block.
        local_bytes: local memory of a thread.
        max_threads: of a block, if the kernel has launch bounds; else 1024.
        cluster: blocks of a cluster along x, y and z if that is fixed; else zeros.
    """

    parameters: tuple[Parameter, ...]
    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads: int = 1024
    cluster: tuple[int, int, int] = (0, 0, 0)

    def fields(self) -> dict[str, Any]:
        """Return plain values for a message."""
        return {
            "parameters": [[one.offset, one.size] for one in self.parameters],
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "local_bytes": self.local_bytes,
            "max_threads": self.max_threads,
            "cluster": list(self.cluster),
        }

    @staticmethod
    def of(fields: Any) -> "Kernel":
        """Return the kernel that `fields` gave."""
        return Kernel(
            tuple(Parameter(int(offset), int(size)) for offset, size in fields["parameters"]),
            int(fields["registers"]),
            int(fields["shared_bytes"]),
            int(fields["local_bytes"]),
            int(fields["max_threads"]),
            (int(fields["cluster"][0]), int(fields["cluster"][1]), int(fields["cluster"][2])),
        )


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    link: int
    content: bytes
    size: int


def symbol(mangled: str) -> str:
    """Return a kernel's name without what the compiler adds, if that can be determined."""
    found = _MANGLED.match(mangled)
    return found[2][: int(found[1])] if found else mangled


def kernels_of(cubin: bytes, arch: int) -> dict[str, Kernel]:
    """Return the kernels of a cubin by their mangled names.

    Raises:
        CubinError: it cannot be read.
    """
    try:
        sections = list(_sections(cubin))
        symbols = _symbols(sections)
        by_name = {section.name: section for section in sections}
        frames, registers = (_of_all(by_name.get(".nv.info"), symbols, kind) for kind in (_FRAME_KIND, _REGISTERS_KIND))
        names = [name.removeprefix(".nv.info.") for name in by_name if name.startswith(".nv.info.")]
        reserved = RESERVED_SHARED_BYTES if arch >= FIRST_COUNTED else 0
        return {
            name: _kernel(name, by_name, registers.get(name, 0), frames.get(name, 0), reserved)
            for name in names
            if f".text.{name}" in by_name
        }
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CubinError(f"a cubin cannot be read: {error}") from error


def variables_of(cubin: bytes) -> dict[str, int]:
    """Return the sizes in bytes of a cubin's `__device__` and `__constant__` variables, by name."""
    try:
        sections = list(_sections(cubin))
        places = {n for n, one in enumerate(sections) if one.name.startswith((".nv.global", ".nv.constant3"))}
        return {name: size for name, place, size in _symbols(sections) if place in places and name and size}
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CubinError(f"a cubin cannot be read: {error}") from error


def _sections(cubin: bytes) -> Iterator[_Section]:
    if cubin[:4] != b"\x7fELF":
        raise CubinError("a cubin does not begin like an ELF file")
    header = _HEADER.unpack_from(cubin)
    start, count, names_at = header[6], header[12], header[13]
    raw = [_SECTION.unpack_from(cubin, start + number * _SECTION.size) for number in range(count)]
    texts = cubin[raw[names_at][4] : raw[names_at][4] + raw[names_at][5]]
    for name, kind, _, _, offset, size, link, _, _, _ in raw:
        # A section of kind 8 has a size and no content.
        content = b"" if kind == 8 else cubin[offset : offset + size]
        yield _Section(_text(texts, name), kind, link, content, size)


def _text(texts: bytes, start: int) -> str:
    return texts[start : texts.index(b"\0", start)].decode()


def _symbols(sections: list[_Section]) -> list[tuple[str, int, int]]:
    """Return name, section and size of each symbol, in the order of the table."""
    table = next((section for section in sections if section.kind == _SYMTAB), None)
    if table is None:
        return []
    texts = sections[table.link].content
    found = []
    for name, _, _, place, _, size in _SYMBOL.iter_unpack(table.content):
        found.append((_text(texts, name), place, size))
    return found


def _attributes(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, short value and long value of each attribute."""
    at = 0
    while at < len(content):
        form, kind, short = _ATTRIBUTE.unpack_from(content, at)
        at += _ATTRIBUTE.size
        value = content[at : at + short] if form == _SIZED else b""
        at += len(value)
        yield kind, short, value


def _of_all(info: _Section | None, symbols: list[tuple[str, int, int]], wanted: int) -> dict[str, int]:
    """Return a number of each kernel from the section about all of them."""
    found = {}
    for kind, _, value in _attributes(info.content if info else b""):
        if kind == wanted:
            symbol, number = struct.unpack_from("<II", value)
            found[symbols[symbol][0]] = number
    return found


def _kernel(name: str, sections: dict[str, _Section], registers: int, frame: int, reserved: int) -> Kernel:
    parameters: dict[int, Parameter] = {}
    threads, cluster = 1024, (0, 0, 0)
    for kind, _, value in _attributes(sections[f".nv.info.{name}"].content):
        if kind == _PARAMETER_KIND:
            _, number, offset, packed = _PARAMETER.unpack_from(value)
            parameters[number] = Parameter(offset, packed >> _SIZE_SHIFT)
        elif kind == _MOST_THREADS_KIND:
            x, y, z = struct.unpack_from("<III", value)
            threads = x * y * z
        elif kind == _CLUSTER_KIND:
            cluster = struct.unpack_from("<III", value)
    shared = sections.get(f".nv.shared.{name}")
    return Kernel(
        tuple(parameters[number] for number in sorted(parameters)),
        registers,
        max(0, shared.size - reserved) if shared else 0,
        frame,
        threads,
        cluster,
    )
