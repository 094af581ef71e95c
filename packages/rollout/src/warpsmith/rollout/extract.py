"""Taking the kernel out of a completion: thoughts dropped, the last code block, or bare code."""

import re
import textwrap
from bisect import bisect_left

# Possessive throughout: the text is hostile, and every other form takes quadratic time on some line.
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<run>`{3,}+|~{3,}+)[ \t]*+(?:[{.]*+(?P<language>[\w+-]++)[^`\n]*+)?$", re.MULTILINE
)
_TRIPLE_QUOTE = re.compile(r"'''|\"\"\"")
_CODE_START = re.compile(r"^(?:import |from \w[\w.]* import |@triton\.jit|@torch\.|class \w|def \w)", re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3", "triton"})
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_THINK_LINE = re.compile(rf"^[ \t]*+{_THINK_OPEN}", re.MULTILINE)
ENTRY_POINT = "ModelNew"
_DEFINITION = re.compile(rf"^class {ENTRY_POINT}\b", re.MULTILINE)


def extract_kernel(completion: str, *, opened_thoughts: bool = False) -> str | None:
    """Return the candidate's source in a completion, or None where there is none.

    The last Python block that defines the class `ModelNew` counts, else the last that names it, else the last. A block
    that is never closed (the completion was cut) runs to the end. Without any block, the text from the first line that
    starts like Python code.

    Args:
        completion: the text that was sampled.
        opened_thoughts: whether the prompt ends inside thoughts.
    """
    answer = strip_thoughts(completion.replace("\r\n", "\n"), opened_thoughts=opened_thoughts)
    blocks = _blocks(answer)
    if blocks is None:
        return _bare_code(answer)
    defining = [block for block in blocks if _DEFINITION.search(block)]
    chosen = defining or [block for block in blocks if ENTRY_POINT in block] or blocks
    return _cleaned(chosen[-1]) if chosen else None


def strip_thoughts(completion: str, *, opened_thoughts: bool = False) -> str:
    """Return the answer that follows the thoughts; empty where the thoughts never end.

    A lone closing tag ends thoughts whether or not the prompt is known to have opened them. An opening one counts
    where it begins a line or stands before all code. A comment or a string of a kernel may hold either: a closing tag
    in one counts only where thoughts were opened and no other tag ends them.
    """
    end = _end_of_thoughts(completion)
    if end < 0 and (opened_thoughts or _THINK_OPEN in completion):
        end = completion.rfind(_THINK_CLOSE)
    if opened_thoughts and end < 0:
        return ""
    rest = completion[end + len(_THINK_CLOSE) :] if end >= 0 else completion
    code = _FENCE.search(rest) or _CODE_START.search(rest)
    before = rest.find(_THINK_OPEN, 0, code.start() if code else None)
    line = _THINK_LINE.search(rest)
    return rest[:before] if before >= 0 else rest[: line.start()] if line else rest


def _end_of_thoughts(text: str) -> int:
    """Return where the last closing tag begins that stands in no comment and begins no string; -1 without one."""
    after = len(text)
    for line in reversed(text.split("\n")):
        start = after - len(line)
        place = line.partition("#")[0].rfind(_THINK_CLOSE)
        while place > 0 and line[place - 1] in "'\"":
            place = line.rfind(_THINK_CLOSE, 0, place)
        if place >= 0:
            return start + place
        after = start - 1
    return -1


def _blocks(text: str) -> list[str] | None:
    """Return the Python blocks in order, or None where there is no fence at all."""
    fences = list(_FENCE.finditer(text))
    if not fences:
        return None
    quotes = [quote.start() for quote in _TRIPLE_QUOTE.finditer(text)]
    blocks = []
    position = 0
    while position < len(fences):
        opening = fences[position]
        end = _closing(fences, position, quotes)
        if (opening["language"] or "").lower() in _PYTHON:
            block = text[opening.end() : fences[end].start() if end < len(fences) else len(text)]
            blocks.append(textwrap.dedent(block) if opening["indent"] else block)
        position = end + 1
    return [block for block in blocks if block.strip()]


def _closing(fences: list[re.Match[str]], position: int, quotes: list[int]) -> int:
    """Return which fence closes the block that the one at `position` opens, or their number where none does.

    It is bare, of the same character and at least as long, and the number of triple quotes before it says that it
    stands in no string of the block. Where a string never ends, the first one that fits otherwise.
    """
    opening = fences[position]
    before = bisect_left(quotes, opening.end())
    first = None
    for index in range(position + 1, len(fences)):
        fence = fences[index]
        if fence["language"] is None and fence["run"].startswith(opening["run"]):
            if (bisect_left(quotes, fence.start()) - before) % 2 == 0:
                return index
            first = first or index
    return first if first and (len(quotes) - before) % 2 else len(fences)


def _bare_code(text: str) -> str | None:
    start = _CODE_START.search(text)
    return _cleaned(text[start.start() :]) if start else None


def _cleaned(code: str) -> str:
    return code.strip("\n").rstrip() + "\n"
