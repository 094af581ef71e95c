"""Few sources stand for many: each construct is in one of those that are chosen."""

from covering import constructs, covering

SOURCES = {
    "sum": "import triton.language as tl\nx = tl.sum(y)\n",
    "sum again": "import triton.language as tl\nz = tl.sum(x)\n",
    "more than the sum": "import triton.language as tl\nif x:\n    y = tl.sum(x)\n",
    "largest": "y = tl.max(x)\n",
}


def test_constructs_are_syntax_and_names_of_the_libraries():
    assert {"Import", "Call", "tl.sum"} <= constructs(SOURCES["sum"])
    assert constructs("a.b.c = torch.empty(1)") >= {"torch.empty", "Attribute"}
    assert not any("." in name for name in constructs("a.b.c()"))


def test_what_others_have_is_left_out_and_what_is_new_is_chosen():
    assert covering(SOURCES) == {"more than the sum", "largest"}
    new = SOURCES | {"with a loop": "for x in y:\n    pass\n"}
    assert covering(new) == {"more than the sum", "largest", "with a loop"}
    assert covering({}) == set()
