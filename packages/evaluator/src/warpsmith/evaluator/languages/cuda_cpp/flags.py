"""The compiler flags that a candidate may set: a list of those that only tune code. Importable without torch."""

import re
from collections.abc import Iterable, Iterator
from typing import Final


class FlagError(ValueError):
    """A flag that is not on the list."""


_ALLOWED: Final = re.compile(
    r"""
    -O[0-3] | -Ofast | -g | -w | -Wall | -Wextra | -Wno-[\w=-]+ | -v | -lineinfo | --generate-line-info
    | -std=c\+\+(14|17|20) | --std=c\+\+(14|17|20) | -std=gnu\+\+(14|17|20)
    | (-|--)use_fast_math | (-|--)(ftz|prec-div|prec-sqrt|fmad)=(true|false)
    | (-|--)maxrregcount=\d{1,3} | (--|-)expt-relaxed-constexpr | (--|-)expt-extended-lambda | (--|-)extended-lambda
    | -D\w+(=[\w.+-]*)? | -U\w+ | -fPIC | -fopenmp | -ffast-math | -funroll-loops | -march=native | -mtune=native
    | --threads=?\d* | -t=?\d+ | (-|--)resource-usage | (--|-)restrict | (--|-)extra-device-vectorization
    | (-|--)(rdc|relocatable-device-code)=false
    | -diag-suppress[=\s]?[\d,]+ | --diag-suppress[=\s]?[\d,]+ | -ldl | -lm | -lcudart | -lcuda | -lstdc\+\+
    """,
    re.VERBOSE,
)
_PTXAS: Final = re.compile(
    r"-v|--verbose|-O[0-3]|(-dlcm|--def-load-cache)=c[agsv]|(-dscm|--def-store-cache)=\w+|-warn-spills"
    r"|--warn-on-spills|--warn-on-local-memory-usage|--allow-expensive-optimizations=(true|false)"
    r"|--maxrregcount=\d{1,3}|--use_fast_math"
)
_CHIP: Final = re.compile(
    r"(-arch|--gpu-architecture|-gencode|--generate-code|-code|--gpu-code)(=.*)?|arch=[\w,=\[\]]+|(sm|compute)_\w+"
)
"""The evaluator sets the chip itself."""
_NO_EFFECT: Final = re.compile(
    r"-v|-Wall|-Wextra|-Wno-.*|--threads.*|-t.*|-l\w+|-fPIC|-fopenmp|-g|-march=.*|-mtune=.*"
    r"|--?(rdc|relocatable-device-code)=false"
)
_PAIRED: Final = {"-Xptxas": _PTXAS, "--ptxas-options": _PTXAS, "-Xcompiler": None, "--compiler-options": None}
_SEPARATE: Final = frozenset(
    {"-maxrregcount", "--maxrregcount", "-std", "--std", "-diag-suppress", "--diag-suppress", "-D", "-U", "--threads"}
)


def checked(flags: Iterable[str], option: str) -> list[str]:
    """Return the flags to compile with; those without an effect on code, or on the chip, are left out.

    Args:
        flags: as a candidate passes them.
        option: their parameter of `load_inline`, for messages.

    Raises:
        FlagError: one is not on the list.
    """
    found: list[str] = []
    for flag, value in _joined(flags):
        if flag in _PAIRED:
            found += _passed_on(flag, value, option)
        elif _CHIP.fullmatch(flag) or not flag:
            continue
        elif not _ALLOWED.fullmatch(flag):
            raise _refused(flag, option)
        elif not _NO_EFFECT.fullmatch(flag):
            found.append(flag)
    return found


def _joined(flags: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag, with the value of those that pass one on; `-maxrregcount 64` becomes `-maxrregcount=64`."""
    waiting = iter(word for flag in flags for word in str(flag).split())
    for word in waiting:
        name, equals, value = word.partition("=")
        if name in _PAIRED:
            yield name, value if equals else next(waiting, "")
        elif word in {"-gencode", "--generate-code", "-arch", "-code", "--gpu-architecture", "--gpu-code"}:
            next(waiting, "")
        elif word in {"-D", "-U"}:
            yield word + next(waiting, ""), ""
        elif word in _SEPARATE:
            yield f"{word}={next(waiting, '')}", ""
        else:
            yield word, ""


def _passed_on(flag: str, values: str, option: str) -> list[str]:
    kept = []
    for value in values.strip("\"'").split(","):
        pattern = _PAIRED[flag] or _ALLOWED
        if not pattern.fullmatch(value):
            raise _refused(f"{flag} {value}", option)
        # Host code only records: how well it is optimised is of no account.
        if _PAIRED[flag] is not None and not _NO_EFFECT.fullmatch(value):
            kept += [flag, value]
    return kept


def _refused(flag: str, option: str) -> FlagError:
    return FlagError(
        f"{option} has the flag {flag[:80]!r}, which is not allowed. Allowed are -O0 to -O3, -std=c++14 to c++20, "
        "--use_fast_math, -ftz=, -prec-div=, -prec-sqrt=, -fmad=, -maxrregcount=, -lineinfo, -D and -U, "
        "--expt-relaxed-constexpr, --extended-lambda, and -Xptxas -O3, -dlcm=; libraries and include folders are not."
    )
