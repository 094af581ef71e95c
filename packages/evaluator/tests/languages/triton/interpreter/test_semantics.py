"""Which kernels' calls may answer None: those of Triton's own library, and of nobody who calls himself so."""

import ast

import pytest
import triton.language as tl

from warpsmith.evaluator.languages.triton.interpreter import semantics
from warpsmith.evaluator.languages.triton.interpreter.semantics import NAME, Rewriter, UnclearMeaningError

SOURCE = "def kernel(helper):\n    found: constexpr = helper()\n    return 1 if found is None else 0\n"


def rewritten(*, trusting: bool):
    tree = ast.fix_missing_locations(Rewriter(trusting=trusting).visit(ast.parse(SOURCE)))
    names = {NAME: semantics, "constexpr": tl.constexpr}
    exec(compile(tree, "kernel.py", "exec"), names)
    return names["kernel"]


def test_a_helper_of_tritons_library_may_answer_none_and_of_a_kernel_may_not():
    assert rewritten(trusting=True)(lambda: None) == 1
    assert [rewritten(trusting=way)(lambda: 5) for way in (True, False)] == [0, 0]
    with pytest.raises(UnclearMeaningError, match="return on some path"):
        rewritten(trusting=False)(lambda: None)


def test_only_functions_that_live_in_tritons_language_are_its():
    assert semantics.is_tritons(tl.standard.sum.fn)
    assert semantics.is_tritons(tl.standard._sum_combine.fn)
    forged: dict[str, object] = {"__name__": tl.standard.__name__}
    exec("def sum(x):\n    return x", forged)
    assert forged["sum"].__module__ == tl.standard.__name__
    assert not semantics.is_tritons(forged["sum"])
    assert not semantics.is_tritons(rewritten)
    forged["sum"].__module__ = None
    assert not semantics.is_tritons(forged["sum"])
