"""The record schema: the columns of what Warpsmith records about a run. docs/record-spec.md is its written form.

Three tables: `turns` (one row per turn of an episode), `credits` (one row per use of a turn in training) and `steps`
(one row per training step). The schema also says which columns are nullable.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records import checks
from warpsmith.records.checks import Row, Rule, SchemaError
from warpsmith.records.errors import WarpsmithError

__all__ = [
    "CREDITS",
    "KEYS",
    "MIGRATIONS",
    "SAMPLING",
    "SCHEMA_VERSION",
    "STEPS",
    "TABLES",
    "TURNS",
    "VERDICT",
    "Migration",
    "NewerSchemaError",
    "SchemaError",
    "TableName",
    "batch_of",
    "check",
    "credits_batch",
    "migrate",
    "steps_batch",
    "table_name",
    "turns_batch",
]

SCHEMA_VERSION: Final = 7

TableName = Literal["turns", "credits", "steps"]

TABLE_KEY: Final = b"warpsmith.table"
VERSION_KEY: Final = b"warpsmith.schema_version"


class NewerSchemaError(WarpsmithError):
    """A file was written under a newer schema version than this installation reads."""


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


def _list_of(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", type_, nullable=False))


def _schema(table: TableName, fields: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema(fields, metadata={TABLE_KEY: table.encode(), VERSION_KEY: str(SCHEMA_VERSION).encode()})


UTC_US: Final = pa.timestamp("us", tz="UTC")

MESSAGE: Final = pa.struct([_required("role", pa.string()), _required("content", pa.string())])

SAMPLING: Final = pa.struct(
    [
        _required("temperature", pa.float64()),
        pa.field("top_p", pa.float64()),
        pa.field("top_k", pa.int32()),
        pa.field("min_p", pa.float64()),
        _required("max_tokens", pa.int32()),
        pa.field("seed", pa.int64()),
    ]
)
"""How the completion was sampled; null means that the setting was not used."""

SECONDS: Final = pa.struct(
    [pa.field("compile", pa.float64()), pa.field("wait", pa.float64()), pa.field("evaluate", pa.float64())]
)

FIGURES: Final = _list_of(pa.struct([_required("name", pa.string()), _required("value", pa.float64())]))
"""Named figures. A list of pairs instead of a map, which `datasets` cannot read; a further figure needs no new
column."""

VERDICT: Final = pa.struct(
    [
        _required("status", pa.string()),
        _required("compiled", pa.bool_()),
        _required("correct", pa.bool_()),
        pa.field("speedup", pa.float64()),
        pa.field("runtime_ms", pa.float64()),
        pa.field("reference_ms", pa.float64()),
        pa.field("timing_tier", pa.string()),
        pa.field("isolation_tier", pa.string()),
        pa.field("recording", pa.string()),
        pa.field("flags", _list_of(pa.string())),
        pa.field("error_category", pa.string()),
        pa.field("error_message", pa.string()),
        pa.field("max_abs_error", pa.float64()),
        pa.field("mismatched_fraction", pa.float64()),
        pa.field("trials", pa.int32()),
        pa.field("cached", pa.bool_()),
        pa.field("device", pa.string()),
        pa.field("seconds", SECONDS),
        pa.field("figures", FIGURES),
    ]
)
"""The evaluator's complete result. Times are in milliseconds (`*_ms`) or seconds (`seconds.*`)."""

TURNS: Final = _schema(
    "turns",
    [
        # identity
        _required("run", pa.string()),
        _required("task", pa.string()),
        _required("role", pa.string()),
        _required("problem", pa.string()),
        _required("source", pa.string()),
        pa.field("level", pa.int32()),
        _required("group", pa.string()),
        _required("trajectory", pa.string()),
        _required("sample", pa.int32()),
        _required("turn", pa.int32()),
        _required("num_turns", pa.int32()),
        pa.field("after_step", pa.int64()),
        pa.field("rollout_step", pa.int64()),
        pa.field("stage", pa.int32()),
        pa.field("agent", pa.string()),
        # text
        _required("messages", _list_of(MESSAGE)),
        _required("completion", pa.string()),
        pa.field("kernel", pa.string()),
        # tokens
        _required("prompt_ids", _list_of(pa.int32())),
        _required("completion_ids", _list_of(pa.int32())),
        _required("logprobs", _list_of(pa.float32())),
        _required("weight_versions", _list_of(pa.int64())),
        pa.field("finish_reason", pa.string()),
        _required("sampling", SAMPLING),
        # verdict
        pa.field("verdict", VERDICT),
        # credit known with the turn
        pa.field("reward", pa.float64()),
        pa.field("return", pa.float64()),
        pa.field("speedup_over_start", pa.float64()),
        _required("valid", pa.bool_()),
        pa.field("invalid_reason", pa.string()),
        # time
        _required("started_at", UTC_US),
        pa.field("generate_s", pa.float64()),
        pa.field("compile_s", pa.float64()),
        pa.field("wait_s", pa.float64()),
        pa.field("evaluate_s", pa.float64()),
    ],
)
"""One row per turn: prompt, completion, verdict and score."""

CREDITS: Final = _schema(
    "credits",
    [
        _required("run", pa.string()),
        _required("trajectory", pa.string()),
        _required("turn", pa.int32()),
        _required("estimator", pa.string()),
        _required("advantage", pa.float64()),
        _required("step", pa.int64()),
        _required("weight_version", pa.int64()),
        pa.field("group_size", pa.int32()),
        pa.field("staleness", pa.int64()),
        pa.field("ratio_mean", pa.float64()),
        pa.field("ratio_max", pa.float64()),
        pa.field("clipped_fraction", pa.float64()),
        pa.field("kl_mean", pa.float64()),
    ],
)
"""One row per training step that used a turn. Ratios are null until the step has computed them."""

_STEP_FIGURES: Final = (
    "loss",
    "reward_mean",
    "turn_return_mean",
    "compiled_rate",
    "correct_rate",
    "speedup_mean",
    "learning_rate",
    "grad_norm",
    "entropy",
    "kl",
    "ratio_mean",
    "clipped_fraction",
    "sampler_kl",
    "staleness_mean",
    "turns",
    "invalid_turns",
    "tokens",
    "collect_s",
    "train_s",
    "sync_s",
)

STEPS: Final = _schema(
    "steps",
    [
        _required("run", pa.string()),
        _required("step", pa.int64()),
        _required("weight_version", pa.int64()),
        _required("started_at", UTC_US),
        _required("seconds", pa.float64()),
        *(pa.field(name, pa.float64()) for name in _STEP_FIGURES),
        _required("metrics", pa.map_(pa.string(), pa.float64())),
    ],
)
"""One row per training step: figures that every run has as columns, everything logged in `metrics`."""

TABLES: Final[Mapping[TableName, pa.Schema]] = MappingProxyType({"turns": TURNS, "credits": CREDITS, "steps": STEPS})

KEYS: Final[Mapping[TableName, tuple[str, ...]]] = MappingProxyType(
    {
        "turns": ("run", "trajectory", "turn"),
        "credits": ("run", "trajectory", "turn", "estimator", "step"),
        "steps": ("run", "step"),
    }
)
"""The columns that identify a row. A resumed run may record a key again; the row recorded last counts."""


def _lengths_differ(one: str, other: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.not_equal(
        pc.list_value_length(batch.column(one)), pc.list_value_length(batch.column(other))
    )


def _not_finite(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.fill_null(pc.invert(pc.is_finite(batch.column(name))), False)


def _turn_out_of_range(batch: pa.RecordBatch) -> pa.Array:
    turn = batch.column("turn")
    return pc.or_(pc.less(turn, 0), pc.greater_equal(turn, batch.column("num_turns")))


def _negative(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.fill_null(pc.less(batch.column(name), 0), False)


def _below_1(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.fill_null(pc.less(batch.column(name), 1), False)


def _not_above_0(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
    def broken(batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(name)
        return pc.fill_null(pc.invert(pc.and_(pc.is_finite(values), pc.greater(values, 0))), False)

    return broken


def _valid_without_reward(batch: pa.RecordBatch) -> pa.Array:
    return pc.and_(batch.column("valid"), pc.is_null(batch.column("reward")))


def _reason_does_not_fit(batch: pa.RecordBatch) -> pa.Array:
    return pc.equal(batch.column("valid"), pc.is_valid(batch.column("invalid_reason")))


RULES: Final[Mapping[TableName, tuple[Rule, ...]]] = MappingProxyType(
    {
        "turns": (
            Rule("logprobs", "have one entry per completion token", _lengths_differ("completion_ids", "logprobs")),
            Rule(
                "weight_versions",
                "have one entry per completion token",
                _lengths_differ("completion_ids", "weight_versions"),
            ),
            Rule("turn", "be at least 0 and below num_turns", _turn_out_of_range),
            Rule("after_step", "be at least 0 or null", _negative("after_step")),
            Rule("rollout_step", "be at least 0 or null", _negative("rollout_step")),
            Rule("stage", "be at least 1 or null", _below_1("stage")),
            Rule("reward", "be set where valid is true", _valid_without_reward),
            Rule("reward", "be finite or null", _not_finite("reward")),
            Rule("return", "be finite or null", _not_finite("return")),
            Rule("speedup_over_start", "be above 0 or null", _not_above_0("speedup_over_start")),
            Rule("invalid_reason", "be set where valid is false and null where it is true", _reason_does_not_fit),
        ),
        "credits": (
            Rule("advantage", "be finite", _not_finite("advantage")),
            Rule("turn", "be at least 0", lambda batch: pc.less(batch.column("turn"), 0)),
        ),
        "steps": (Rule("step", "be at least 0", lambda batch: pc.less(batch.column("step"), 0)),),
    }
)


def table_name(name: str) -> TableName:
    """Return `name` as a `TableName`.

    Raises:
        SchemaError: there is no such table.
    """
    for known in get_args(TableName):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise SchemaError(f"Unknown table `{name}`.", f"The tables are {', '.join(TABLES)}.", table=name)


def turns_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows (one mapping per turn, keyed by column) to a checked batch of `TURNS`; raises SchemaError."""
    return batch_of("turns", rows)


def credits_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows (one mapping per use of a turn) to a checked batch of `CREDITS`; raises SchemaError."""
    return batch_of("credits", rows)


def steps_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows (one mapping per training step) to a checked batch of `STEPS`; raises SchemaError.

    `metrics` is a mapping of names to numbers, or a list of pairs.
    """
    return batch_of("steps", [_with_metric_pairs(row) for row in rows])


def batch_of(table: str, rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows to a batch of the named table and check it.

    Raises:
        SchemaError: names the first row and column that do not fit.
    """
    name = table_name(table)
    batch = checks.batch_from_rows(name, TABLES[name], rows)
    check(name, batch)
    return batch


def check(table: str, batch: pa.RecordBatch) -> None:
    """Check that a batch fits the named table (types, nulls, rules between columns).

    Raises:
        SchemaError: names the first row and column that do not fit.
    """
    name = table_name(table)
    checks.check_batch(name, TABLES[name], batch, RULES[name])


def _with_metric_pairs(row: Row) -> Row:
    metrics = row.get("metrics", {})
    return {**row, "metrics": list(metrics.items()) if isinstance(metrics, Mapping) else metrics}


Migration = Callable[[pa.RecordBatch], pa.RecordBatch]


def _without_after_step(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 1 of `turns`, which lacked `after_step`: null."""
    column = TURNS.field("after_step")
    place = batch.schema.get_field_index("num_turns") + 1
    return batch.add_column(place, column, pa.nulls(batch.num_rows, column.type))


def _without_host_code(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 2 of `turns`, which did not record where a candidate's host code ran: null."""
    column = batch.schema.get_field_index("verdict")
    found = batch.column(column)
    fields, values = list(found.type), [found.field(index) for index in range(found.type.num_fields)]
    place = [field.name for field in fields].index("flags")
    fields.insert(place, pa.field("host_code", pa.string()))
    values.insert(place, pa.nulls(len(found), pa.string()))
    verdicts = pa.StructArray.from_arrays(values, fields=fields, mask=found.is_null())
    return batch.set_column(column, pa.field("verdict", verdicts.type), verdicts)


def _with_host_code(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 3 of `turns`, which called `verdict.recording` `host_code` and had other values for it."""
    column = batch.schema.get_field_index("verdict")
    found = batch.column(column)
    fields, values = list(found.type), [found.field(index) for index in range(found.type.num_fields)]
    place = [field.name for field in fields].index("host_code")
    fields[place] = pa.field("recording", pa.string())
    # Under a null verdict any value is allowed.
    words = [_WAYS.get(word) for word in values[place].to_pylist()]
    values[place] = pa.array(words, pa.string())
    verdicts = pa.StructArray.from_arrays(values, fields=fields, mask=found.is_null())
    return batch.set_column(column, pa.field("verdict", verdicts.type), verdicts)


_WAYS: Final = MappingProxyType({"apart": "detached", "beside": "on_device"})


def _without_rollout_step(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 4 of `turns`, which lacked `rollout_step`: the step after `after_step` for training turns."""
    column = TURNS.field("rollout_step")
    trained = pc.equal(batch.column("role"), "train")
    steps = pc.if_else(trained, pc.add(batch.column("after_step"), 1), pa.scalar(None, column.type))
    return batch.add_column(batch.schema.get_field_index("after_step") + 1, column, steps)


def _with_return_mean(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 4 of `steps`, which called `turn_return_mean` `return_mean`, as a column and in `metrics`."""
    names = ["turn_return_mean" if name == "return_mean" else name for name in batch.schema.names]
    renamed = batch.rename_columns(names)
    place = renamed.schema.get_field_index("metrics")
    rows = [
        [("turn_return_mean" if name == "return_mean" else name, value) for name, value in pairs]
        for pairs in renamed.column(place).to_pylist()
    ]
    return renamed.set_column(place, STEPS.field("metrics"), pa.array(rows, STEPS.field("metrics").type))


def _without_agent(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 5 of `turns`, which lacked `agent` and `speedup_over_start`: null, there were no agents."""
    for name, before in (("agent", "rollout_step"), ("speedup_over_start", "return")):
        column = TURNS.field(name)
        place = batch.schema.get_field_index(before) + 1
        batch = batch.add_column(place, column, pa.nulls(batch.num_rows, column.type))
    return batch


def _without_stage(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 6 of `turns`, which lacked `stage`: null, it stood in the metrics of `steps` alone."""
    column = TURNS.field("stage")
    place = batch.schema.get_field_index("rollout_step") + 1
    return batch.add_column(place, column, pa.nulls(batch.num_rows, column.type))


def _without_figures(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 6 of `turns`, whose verdicts lacked `figures`: null."""
    column = batch.schema.get_field_index("verdict")
    found = batch.column(column)
    fields = [*found.type, VERDICT.field("figures")]
    values = [*(found.field(index) for index in range(found.type.num_fields)), pa.nulls(len(found), FIGURES)]
    verdicts = pa.StructArray.from_arrays(values, fields=fields, mask=found.is_null())
    return batch.set_column(column, TURNS.field("verdict"), verdicts)


def _without_stage_and_figures(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Migrate version 6 of `turns`, which lacked both."""
    return _without_figures(_without_stage(batch))


MIGRATIONS: Final[Mapping[tuple[TableName, int], Migration]] = MappingProxyType(
    {
        ("turns", 1): _without_after_step,
        ("turns", 2): _without_host_code,
        ("turns", 3): _with_host_code,
        ("turns", 4): _without_rollout_step,
        ("turns", 5): _without_agent,
        ("turns", 6): _without_stage_and_figures,
        ("steps", 4): _with_return_mean,
    }
)
"""(table, version) -> the function that converts a batch of that version to the next version."""


def migrate(
    table: TableName,
    batch: pa.RecordBatch,
    version: int,
    *,
    migrations: Mapping[tuple[TableName, int], Migration] = MIGRATIONS,
    current: int = SCHEMA_VERSION,
) -> pa.RecordBatch:
    """Migrate a batch from schema `version` to `current`, one version at a time.

    A version that does not change a table needs no entry.

    Raises:
        NewerSchemaError: `version` is above `current`.
        SchemaError: `version` is below 1.
    """
    if version > current:
        raise NewerSchemaError(
            f"The records have schema version {version}; this installation reads up to {current}.",
            "Install a newer warpsmith-records.",
        )
    if version < 1:
        raise SchemaError(f"Unknown schema version {version}.", "The first version is 1.", table=table)
    for step in range(version, current):
        batch = migrations.get((table, step), _unchanged)(batch)
    return batch


def _unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch
