"""Finds accesses in a fenced twin that no complete check stands before: a reader of its own, by lines."""

import re

TOUCHES = re.compile(
    r"(?:@(!?\S+) )?((?:ld|ldu|st|atom|red|cp\.async|cp\.reduce|discard|multimem|tex|tld4|suld|sust|sured|wmma\.load|"
    r"wmma\.store|prefetch|prefetchu|applypriority)\b[\w.:]*) (.*);"
)
ELSEWHERE = re.compile(r"\.(?:shared|param|const)\b(?!\.global)")


def unchecked(text: str, slots: int) -> list[str]:
    """Return the lines of a twin that reach memory and that no complete check stands before."""
    functions, _, kernel = text.rpartition(".visible .entry")
    return [*_unchecked(functions, 0, _tables(text)), *_unchecked(kernel, slots, _tables(text))]


def unchecked_of_nvcc(text: str, slots: int) -> list[str]:
    """Return the same lines of a module of nvcc's, whose functions reach what their callers reach."""
    parts = re.split(r"^(?=\.visible \.entry|\.func)", text, flags=re.MULTILINE)
    return [line for part in parts for line in _unchecked(part, slots, _tables(text))]


def _tables(text: str) -> set[str]:
    return set(re.findall(r"^\.(?:visible )?(?:global|local) .*?([\w$]+)\[\d+\]", text, flags=re.MULTILINE))


def _unchecked(text: str, slots: int, tables: set[str]) -> list[str]:
    lines, found, since = text.splitlines(), [], 0
    for number, line in enumerate(lines):
        touching = TOUCHES.fullmatch(line)
        if touching is None or exempt(*touching.groups(), tables):
            continue
        guard = lines[since:number]
        since = number
        if not complete(guard, touching[1] or "", touching[2], touching[3], slots):
            found.append(line)
    return found


def exempt(predicate: str | None, opcode: str, operands: str, tables: set[str]) -> bool:
    """Whether an access reaches nothing that lasts: by its space, or a variable by its name, or it is a record."""
    if opcode.startswith(("cp.async.commit", "cp.async.wait", "cp.async.bulk.commit", "cp.async.bulk.wait")):
        return True
    if "global" not in opcode and re.search(r"\.(?:shared|param|const)\b", opcode):
        return True
    if "[%warpsmith_record" in operands:
        return predicate == "%warpsmith_2"
    if "[%warpsmith_caller_fence" in operands:
        # A function of nvcc's loads its bounds from the kernel's parameter.
        return predicate is None and opcode == "ld.b64"
    if opcode == "st.local.b8" and operands == "[%warpsmith_a], %warpsmith_w":
        return True
    named = re.search(r"\[([\w$]+)(?:\+\d+)?\]", operands)
    return opcode.startswith(("ld.", "st.local")) and named is not None and named[1] in tables


def complete(guard: list[str], predicate: str, opcode: str, operands: str, slots: int) -> bool:
    text = "\n".join(guard)
    compared = set(re.findall(r"sub\.s64 %warpsmith_d, %warpsmith_a, %warpsmith_low(\d+);", text))
    tensors = ".local" in opcode or ".tensor" in opcode or len(compared) == slots
    if re.match(r"cp\.async\.c[ag]\.", opcode):
        return tensors and "[%warpsmith_a]" in operands and "%warpsmith_i" in operands
    return tensors and predicate == "%warpsmith_1" and re.search(r"\[%warpsmith_a[\],]", operands) is not None
