"""Taking the kernel out of a completion: thoughts dropped, the last code block, or bare code."""

import re

_FENCE = re.compile(r"^[ \t]*```[ \t]*(?P<language>[A-Za-z0-9_+.-]*)[ \t]*$", re.MULTILINE)
_CODE_START = re.compile(r"^(?:import |from \w[\w.]* import |@triton\.jit|@torch\.|class \w|def \w)", re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3", "triton"})
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
ENTRY_POINT = "ModelNew"


def extract_kernel(completion: str) -> str | None:
    """Return the candidate's source in a completion, or None where there is none.

    The last Python block that names `ModelNew` counts, else the last Python block. A block that is never closed (the
    completion was cut) runs to the end. Without any block, the text from the first line that starts like Python code.
    """
    answer = strip_thoughts(completion)
    blocks = _blocks(answer)
    if blocks is None:
        return _bare_code(answer)
    named = [block for block in blocks if ENTRY_POINT in block]
    chosen = named or blocks
    return _cleaned(chosen[-1]) if chosen else None


def strip_thoughts(completion: str) -> str:
    """Return the answer that follows the thoughts; empty where the thoughts never end.

    A prompt may already have opened the thoughts, so a lone closing tag also ends them.
    """
    _, closed, answer = completion.rpartition(_THINK_CLOSE)
    rest = answer if closed else completion
    return rest.partition(_THINK_OPEN)[0]


def _blocks(text: str) -> list[str] | None:
    """Return the Python blocks in order, or None where there is no fence at all."""
    fences = list(_FENCE.finditer(text))
    if not fences:
        return None
    blocks = []
    position = 0
    while position < len(fences):
        opening = fences[position]
        # A fence that names a language opens a block; while one is open, only a bare fence closes it.
        closing = next((f for f in fences[position + 1 :] if not f["language"]), None)
        if opening["language"].lower() in _PYTHON:
            blocks.append(text[opening.end() : closing.start() if closing else len(text)])
        position = fences.index(closing) + 1 if closing else len(fences)
    return [block for block in blocks if block.strip()]


def _bare_code(text: str) -> str | None:
    start = _CODE_START.search(text)
    return _cleaned(text[start.start() :]) if start else None


def _cleaned(code: str) -> str:
    return code.strip("\n").rstrip() + "\n"
