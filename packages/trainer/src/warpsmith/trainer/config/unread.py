"""Keys that nothing reads under another choice of their table: which they are, and how they are refused.

Whoever writes such a key expects something of it, and the run would not do it. Refused is what was given, whatever its
value: a key that stands in the file and does nothing misleads also where it says what holds anyway. Keys that a preset
brings along are not asked for, and a value that switches its own part off says what happens.

What was given is taken from `model_fields_set` and not from the file, so that who builds these tables in Python is told
as well. A configuration that was written by a run and is read back gives every key, and is not refused; see `is_whole`.
Nor is a key of the file under a choice of `--set`: that turns something off or over for one run, and can take no key
out of the file. What was set so is in the validation's context under SET.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationInfo

from warpsmith.trainer.algorithms import PRESETS
from warpsmith.trainer.config.describe import as_toml

S = TypeVar("S", bound=BaseModel)

SET: Final = "set"
"""Key of the validation's context: the names, each as `table.key`, that `--set` gave."""


@dataclass(frozen=True)
class Reading:
    """What has some keys of a table read.

    Attributes:
        keys: the keys.
        choice: another key of the table.
        values: values of `choice` under which they are read; without any, every value above 0.
        unless: where `choice` may have values that are not known here, the only ones under which they are not read.
    """

    keys: tuple[str, ...]
    choice: str
    values: tuple[object, ...] = ()
    unless: tuple[object, ...] = ()

    def holds(self, table: Mapping[str, Any]) -> bool:
        """Tell whether the keys are read under the other values of their table."""
        value = table[self.choice]
        if self.unless:
            return value not in self.unless
        return value in self.values if self.values else value > 0


_CORRECTIONS = ("truncated", "masked")

READ: Final[Mapping[str, tuple[Reading, ...]]] = MappingProxyType(
    {
        "algorithm": (
            Reading(("clip_low", "clip_high"), "clip", ("ppo", "cispo")),
            Reading(("clip_dual",), "clip", ("ppo",)),
            Reading(("kl", "kl_in", "reference"), "kl_coefficient"),
            Reading(("correction_level", "correction_high", "correction_veto"), "correction", _CORRECTIONS),
            Reading(("correction_low",), "correction", ("masked",)),
            Reading(
                ("gae_lambda", "value_coefficient", "value_clip", "value_lr", "value_trains"), "estimator", ("gae",)
            ),
            Reading(("deviation",), "scale", ("group", "batch")),
            Reading(("constant_length",), "aggregation", ("constant",)),
            Reading(("refill_rounds",), "dynamic_sampling", (True,)),
            Reading(("overlong_penalty",), "overlong_share"),
        ),
        "problems": (Reading(("count", "seed"), "source", ("generated",)),),
        "rollout": (
            Reading(
                ("max_turns", "gamma", "success_score", "max_consecutive_failures"), "task_type",
                ("kernelbench_multiturn",), unless=("kernelbench",),
            ),
        ),
        "rollout.evaluation": (
            Reading(("actors", "cores", "max_restarts", "start_timeout_s", "wait_s"), "where", ("ray",)),
            Reading(("token_env",), "where", ("server",)),
            Reading(("deadline_s", "retries"), "where", ("ray", "server")),
        ),
        "held_out": (Reading(("samples", "seed", "before", "after"), "problems"),),
        "optimizer": (
            Reading(("min_lr_ratio",), "schedule", ("cosine", "linear", "wsd")),
            Reading(("decay_ratio",), "schedule", ("wsd",)),
        ),
    }
)  # fmt: skip
"""By table. `algorithm.baseline` under `gae` and `algorithm.ratio` under every `clip` are read, and so not here."""

_OFF_AT_0: Final = frozenset(
    {
        "correction_veto", "value_coefficient", "refill_rounds", "overlong_penalty", "max_restarts", "retries",
        "before", "after",
    }
)  # fmt: skip
"""Keys whose 0 or false switches their own part off, which then is what happens."""


def refuse_unread_keys(section: S, table: str, info: ValidationInfo) -> S:
    """Refuse keys of one table that were given and that nothing reads.

    Args:
        section: the table.
        table: its name in READ.
        info: of its validation.

    Raises:
        ValueError: naming all of them, what keeps each from being read, and how that is mended.
    """
    _refuse([] if is_whole(section) else _refusals(section, table, "", _set(info)))
    return section


def refuse_unread(config: S, info: ValidationInfo) -> S:
    """Do the same for the tables of a file; `[algorithm]` has looked at its own keys before, as it is made."""
    if not is_whole(config):
        tables = {name: _table(config, name) for name in READ if name != "algorithm"}
        _refuse(
            text
            for name, section in tables.items()
            if section
            for text in _refusals(section, name, f"{name}.", _set(info))
        )
    return config


def _set(info: ValidationInfo) -> Collection[str]:
    by_set: Collection[str] = (info.context or {}).get(SET, ())
    return by_set


def _refuse(texts: Iterable[str]) -> None:
    if told := "; ".join(texts):
        raise ValueError(told)


def _table(config: BaseModel, name: str) -> BaseModel | None:
    """Return the table of a dotted name; None where files of this kind have none."""
    found: BaseModel | None = config
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _refusals(section: BaseModel, table: str, prefix: str, by_set: Collection[str]) -> Iterator[str]:
    for reading in READ[table]:
        keys = [] if reading.holds(vars(section)) else _expecting(section, reading)
        if keys and _turned(section, table, reading.choice, by_set):
            keys = [key for key in keys if f"{table}.{key}" in by_set]
        if keys:
            yield _refusal(section, reading, keys, prefix)


def _expecting(section: BaseModel, reading: Reading) -> list[str]:
    """Return the keys that were given with a value other than off."""
    given = section.model_fields_set
    return [key for key in reading.keys if key in given and not _is_off(key, getattr(section, key))]


def _turned(section: BaseModel, table: str, choice: str, by_set: Collection[str]) -> bool:
    """Whether `--set` made this choice, or named the preset that it comes from."""
    source = "preset" if _is_of_preset(section, choice) else choice
    return f"{table}.{source}" in by_set


def _is_of_preset(section: BaseModel, choice: str) -> bool:
    """Whether a choice was not given and comes from the preset."""
    name = getattr(section, "preset", "")
    return name in PRESETS and choice not in section.model_fields_set and choice in vars(PRESETS[name])


def _is_off(key: str, value: object) -> bool:
    return value is None or (key in _OFF_AT_0 and not value)


def _refusal(section: BaseModel, reading: Reading, keys: list[str], prefix: str) -> str:
    choice, one = f"{prefix}{reading.choice}", len(keys) == 1
    wanted = " or ".join(as_toml(value) for value in reading.values)
    mend = f"set {choice} = {wanted}" if wanted else f"set {choice} above 0"
    return (
        f"{_listed(prefix + key for key in keys)} {'is' if one else 'are'} not read with {choice} = "
        f"{as_toml(getattr(section, reading.choice))}{_origin(section, reading.choice)}: "
        f"remove {'it' if one else 'them'}, or {mend}"
    )


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _origin(section: BaseModel, choice: str) -> str:
    """Say where a choice comes from that was not given."""
    return f" (of preset = {as_toml(vars(section)['preset'])})" if _is_of_preset(section, choice) else ""


def is_whole(section: BaseModel) -> bool:
    """Whether every key of a table was given, and of the tables in it.

    A dump of a configuration is such a one, and no file: nobody writes out all of some forty keys. Nothing that is in
    it was asked for by itself.
    """
    within = (value for value in vars(section).values() if isinstance(value, BaseModel))
    return section.model_fields_set >= type(section).model_fields.keys() and all(map(is_whole, within))


def unread_in(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield `table.key` for every key of a dumped configuration that nothing reads."""
    for name, readings in READ.items():
        table: Any = config
        for part in name.split("."):
            table = table.get(part, {})
        for reading in readings:
            if reading.choice in table and not reading.holds(table):
                yield from (f"{name}.{key}" for key in reading.keys)
