"""Whether a problem's inputs sometimes have another form: another dtype, layout, number of rows, or None.

Two input sets of fixed seeds can be alike where one in five differs. A trial whose set differs would then be redrawn
until it does not, and a candidate that fails on such a set would be right in most evaluations.
"""

import ast
import random
import time
from typing import Final

from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import ReferenceSession
from warpsmith.evaluator.reference.tolerated_changes import tried_inputs

MOST_SETS: Final = 40
MOST_S: Final = 0.2
"""Plain input sets that are drawn, and seconds for them."""
LEAST_SETS: Final = 16
"""Sets that are drawn even if it takes longer on a busy machine, up to PATIENCE times as long."""
PATIENCE: Final = 8
MOST_FORMS: Final = 4
"""Maximum number of other forms for which a set is kept."""
_DRAWING: Final = frozenset({"randint", "randrange", "random", "choice", "integers", "item", "tolist", "randperm"})
"""Names of functions that give Python a drawn number, which a size can depend on."""


def other_forms(session: ReferenceSession, form: Form) -> tuple[int, ...]:
    """Return seeds of `rare_inputs.answer_to` whose inputs have another form than `form`; leaves other inputs behind.

    Args:
        session: the problem.
        form: of the sets that are known.
    """
    if not _may_vary(session.source):
        return ()
    secret, begun = random.SystemRandom(), time.monotonic()
    found: dict[int, Form] = {}
    for number in range(1, MOST_SETS + 1):
        seed = secret.getrandbits(64)
        # A set that fails under one seed in many has no form, and is no reason to refuse the problem before its trials.
        if tried_inputs(session, seed) and session.inputs != form and session.inputs not in found.values():
            found[seed] = session.inputs
        patience = 1 if number >= LEAST_SETS else PATIENCE
        if time.monotonic() - begun > patience * MOST_S or len(found) == MOST_FORMS:
            break
    return tuple(found)


def _may_vary(source: str) -> bool:
    """Whether code outside of classes branches, or draws a number that Python sees."""
    outside = [node for node in parse(source).body if not isinstance(node, ast.ClassDef)]
    nodes = (node for statement in outside for node in ast.walk(statement))
    return any(isinstance(node, ast.If | ast.IfExp | ast.Match) or _name(node) in _DRAWING for node in nodes)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            return next((alias.name for alias in names if alias.name in _DRAWING), "")
    return ""
