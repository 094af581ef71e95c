"""Extracts the kernel from a completion: without thoughts, the last code block or bare code."""

import re
import textwrap
from bisect import bisect_left
from collections.abc import Iterator

# Possessive quantifiers throughout: the text is hostile, and other forms take quadratic time on some lines.
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<run>`{3,}+|~{3,}+)[ \t]*+(?:[{.]*+(?P<language>[\w+-]++)[^`\n]*+)?$", re.MULTILINE
)
_TRIPLE_QUOTE = re.compile(r"'''|\"\"\"")
_CODE_START = re.compile(r"^(?:import |from \w[\w.]* import |@triton\.jit|@torch\.|class \w|def \w)", re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3", "triton"})
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_THINK_LINE = re.compile(rf"^[ \t]*+{_THINK_OPEN}", re.MULTILINE)
LONGEST_LINE = 1000
"""Number of characters of a line that are searched."""
ENTRY_POINT = "ModelNew"
_DEFINITION = re.compile(rf"^class {ENTRY_POINT}\b", re.MULTILINE)


def extract_kernel(completion: str, *, opened_thoughts: bool = False) -> str | None:
    """Return the candidate's source in a completion, or None if there is none.

    Takes the last Python block that defines the class `ModelNew`, else the last that names it, else the last. A block
    that is never closed (the completion was cut off) extends to the end. Without any block, takes the text from the
    first line that starts like Python code.

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
    """Return the answer after the thoughts; empty if the thoughts never end.

    A lone closing tag ends thoughts even if the prompt is not known to have opened them. An opening tag counts if it
    starts a line or comes before all code. A comment of a kernel, or a string on one line, can contain either; a
    closing tag in one ends opened thoughts that no other tag ends.
    """
    tags = [tag.start() for tag in re.finditer(_THINK_CLOSE, completion)]
    end = _end_of_thoughts(completion, tags) if tags else -1
    if end < 0 and tags and (opened_thoughts or _opening(completion) >= 0):
        end = tags[-1]
    if opened_thoughts and end < 0:
        return ""
    rest = completion[end + len(_THINK_CLOSE) :] if end >= 0 else completion
    opening = _opening(rest)
    return rest[:opening] if opening >= 0 else rest


def _end_of_thoughts(text: str, tags: list[int]) -> int:
    """Return the last of these closing tags that is not in a comment or string of code, or -1."""
    fences = list(_FENCE.finditer(text))
    starts = [fence.start() for fence in fences]
    opening = {index for index, fence in enumerate(fences) if fence["language"] is not None}
    opening |= {index for index, _ in _pairs(text, fences)}
    defined = max((found.start() for found in _DEFINITION.finditer(text)), default=-1)
    for tag in reversed(tags):
        place = bisect_left(starts, tag)
        if not _is_quoted(text[max(0, tag - LONGEST_LINE) : tag].rpartition("\n")[2]):
            return tag
        # In bare code; the tag that ends thoughts has the kernel after it.
        if not fences and tag < defined:
            return tag
        # In no block, or in a draft that was never closed.
        if fences and (place - 1 not in opening or (place < len(fences) and fences[place]["language"] is not None)):
            return tag
    return -1


def _is_quoted(before: str) -> bool:
    """Whether what follows this part of a line is in a comment or string, if it is code."""
    return "#" in before or before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _opening(text: str) -> int:
    """Return where thoughts begin in the text, or -1."""
    code = _FENCE.search(text) or _CODE_START.search(text)
    before = text.find(_THINK_OPEN, 0, code.start() if code else None)
    line = _THINK_LINE.search(text)
    return before if before >= 0 else line.start() if line else -1


def _blocks(text: str) -> list[str] | None:
    """Return the Python blocks in order, or None if there is no fence."""
    fences = list(_FENCE.finditer(text))
    if not fences:
        return None
    blocks = []
    for start, end in _pairs(text, fences):
        opening = fences[start]
        if (opening["language"] or "").lower() in _PYTHON:
            block = text[opening.end() : fences[end].start() if end < len(fences) else len(text)]
            blocks.append(textwrap.dedent(block) if opening["indent"] else block)
    return [block for block in blocks if block.strip()]


def _pairs(text: str, fences: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield for each block the indices of its opening and closing fences, as found by `_closing`."""
    quotes = [quote.start() for quote in _TRIPLE_QUOTE.finditer(text)]
    position = 0
    while position < len(fences):
        end = _closing(fences, position, quotes)
        yield position, end
        position = end + 1


def _closing(fences: list[re.Match[str]], position: int, quotes: list[int]) -> int:
    """Return the index of the fence that closes the block opened at `position`, or the number of fences if none does.

    It is bare, of the same character, at least as long, and not in a string of the block, judging by the number of
    triple quotes before it. If a string never ends, it is the first fence that fits otherwise.
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
