"""Categories in verdicts: what a mistake of host code is called, and that its message says where it is."""

import pytest

FIRST = "        out = torch.empty_like(x)\n"


@pytest.mark.parametrize(
    ("mistake", "category", "says"),
    [
        ("undefined_name", "name_error", "undefined_name"),
        ("x.no_such", "attribute_error", "no_such"),
        ("x.view(7, 5)", "shape_error", "invalid for input of size"),
        ("import no_such_module", "import_error", "no_such_module"),
        ("add_kernel[(1,)](x, y)", "argument_error", "launched without out_ptr, n, BLOCK. Pass"),
        ("add_kernel[(1,)](x, y, out, 1, n=2, BLOCK=16)", "argument_error", "is given n twice"),
        (
            "add_kernel[(1, 1, 1, 1)](x, y, out, 1, BLOCK=16)",
            "argument_error",
            "a tuple of one to 3 sizes was expected",
        ),
        ("raise SystemExit(3)", "system_exit", "3"),
    ],
)
def test_a_mistake_of_host_code_has_the_category_of_its_kind(
    evaluator, add_problem, add_candidate, mistake, category, says
):
    verdict = evaluator.evaluate(add_problem, add_candidate.replace(FIRST, f"{FIRST}        {mistake}\n"), trials=1)
    assert says in (verdict.error_message or "")
    assert (verdict.status, verdict.error_category) == ("runtime_error", category)


def test_an_output_that_cannot_be_compared_is_named(evaluator, add_problem, add_candidate):
    verdict = evaluator.evaluate(add_problem, add_candidate.replace("return out", "return {'sum': {out}}"), trials=1)
    assert (verdict.status, verdict.error_category) == ("runtime_error", "output_error")
    assert "Output['sum'] is of type set" in (verdict.error_message or "")
