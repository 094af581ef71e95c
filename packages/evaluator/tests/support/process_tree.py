"""The processes of an evaluator as /proc shows them."""

from pathlib import Path

from warpsmith.evaluator import Evaluator


def judge_of(evaluator: Evaluator) -> int:
    """Return the process id of an evaluator's judge: the only place in these tests that looks into an evaluator."""
    return evaluator._judge.process.pid


def _stat(pid: int) -> list[str]:
    """Return state, parent and the fields that follow; the program's name may hold anything and ends with a bracket."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = parent_of(int(entry.name))
            except OSError:
                continue
            if parent == pid:
                found.append(int(entry.name))
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has waited for it yet."""
    try:
        return _stat(pid)[0] == "Z"
    except OSError:
        return True
