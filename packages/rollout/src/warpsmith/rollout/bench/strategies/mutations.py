"""Mutation prompts: what an evolving search asks to change in a parent. They are read from a TOML file."""

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warpsmith.records.errors import UsageError
from warpsmith.records.text import read_text

OWN: Final = Path(__file__).with_name("mutations.toml")


class Mutation(BaseModel):
    """One `[[mutation]]` of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    text: str = Field(min_length=1)
    when: Literal["correct", "wrong", "any"] = "any"
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    mutation: tuple[Mutation, ...] = Field(min_length=1)


def read_mutations(path: Path | None) -> tuple[Mutation, ...]:
    """Return the mutations of a file; of this package's if it is None.

    Raises:
        UsageError: the file cannot be read, has other keys, or none of its mutations fits a correct parent, or a wrong
            one.
    """
    where = path or OWN
    text = read_text(where, UsageError, "file of mutations")
    remedy = 'Write [[mutation]] tables with name, text, and if wanted when = "correct" | "wrong" and weight.'
    try:
        found = _File.model_validate(tomllib.loads(text)).mutation
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not TOML: {error}.", remedy) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where} has no usable mutations: {place}: {first['msg']}.", remedy) from error
    for state in ("correct", "wrong"):
        if not any(one.when in (state, "any") for one in found):
            raise UsageError(
                f"{where} has no mutation for {state} parents.", f'Add one with when = "{state}" or when = "any".'
            )
    return found


def draw(mutations: Sequence[Mutation], rng: random.Random, *, correct: bool) -> Mutation:
    """Return one of the mutations that fit a parent, by weight."""
    fitting = [one for one in mutations if one.when in ("any", "correct" if correct else "wrong")]
    return rng.choices(fitting, weights=[one.weight for one in fitting])[0]
