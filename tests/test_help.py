"""The help of every command: an example of the command itself, a text for each option, today's English."""

import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from typer.main import get_command

PACKAGES = ("records", "policy", "evaluator", "rollout", "trainer")
ODD = re.compile(
    r"\b(mends?|is told|are told|hangs? on|anew|for want of|by itself|lest|thereof|goes on)\b", re.IGNORECASE
)


def commands(name: str, command: object) -> Iterator[tuple[str, object]]:
    yield name, command
    for one, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {one}", inner)


EVERY = [
    found
    for package in PACKAGES
    for found in commands(f"warpsmith-{package}", get_command(import_module(f"warpsmith.{package}.cli").app))
]


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_help_has_an_example_and_a_text_for_each_option(name, command):
    examples = " ".join(command.help.split()).partition("Example")[2]
    assert name in examples
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    assert [one.name for one in shown if not (getattr(one, "help", None) or "").strip()] == []
    texts = [command.help, *(one.help for one in shown)]
    assert [found[0] for text in texts for found in ODD.finditer(text)] == []
