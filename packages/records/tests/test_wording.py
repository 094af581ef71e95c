"""Wording that messages share."""

import pytest

from warpsmith.records.wording import counted, installing, printable


def test_one_is_singular():
    assert [counted(count, "attempt") for count in (0, 1, 2, 1000)] == [
        "0 attempts", "1 attempt", "2 attempts", "1,000 attempts"
    ]  # fmt: skip
    assert (counted(1, "search", "searches"), counted(2, "search", "searches")) == ("1 search", "2 searches")


@pytest.mark.parametrize("extras", [(), ("judge",), ("judge", "mcp")])
def test_an_installation_names_the_folder_in_a_checkout(extras):
    wanted = f"[{','.join(extras)}]" if extras else ""
    assert f"pip install './packages/evaluator{wanted}' (" in installing("evaluator", *extras)


def test_terminal_sequences_and_missing_characters_are_escaped():
    assert printable("a\x1b[31m\u202eb\n", "ascii") == "a\\x1b[31m\\u202eb\n"
    assert printable("\u00e4", "ascii") == "\\xe4"
