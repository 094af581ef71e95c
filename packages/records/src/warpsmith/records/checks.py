"""Checks of a batch before it is recorded; their errors name the row and the column that do not fit."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from warpsmith.records.errors import WarpsmithError

Row = Mapping[str, Any]


class SchemaError(WarpsmithError):
    """Rows or a batch do not fit the record schema.

    Attributes:
        table: the table the rows were meant for.
        column: the column that does not fit, or None if the whole row or schema does not.
        row: 0-based index of the first row that does not fit, or None if no single row is at fault.
    """

    def __init__(
        self, message: str, remedy: str = "", *, table: str = "", column: str | None = None, row: int | None = None
    ) -> None:
        super().__init__(message, remedy)
        self.table = table
        self.column = column
        self.row = row


@dataclass(frozen=True)
class Rule:
    """A relation between columns that types alone cannot express.

    Attributes:
        column: the column an error names.
        says: the rule in words, continuing "column X must ".
        broken: batch -> boolean array of shape (rows,), true (or null) where the rule is broken.
    """

    column: str
    says: str
    broken: Callable[[pa.RecordBatch], pa.Array]


def batch_from_rows(table: str, schema: pa.Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert `rows` (one mapping per row, keyed by column) to one batch of `schema`; a missing column is null.

    Raises:
        SchemaError: names the first row and column that do not fit: an unknown column or struct field, a value of
            another type, a null in a non-nullable column, or a datetime without a time zone.
    """
    for index, row in enumerate(rows):
        _refuse_unknown_names(table, schema, row, index)
    columns = [_column(table, field, [row.get(field.name) for row in rows]) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_batch(table: str, schema: pa.Schema, batch: pa.RecordBatch, rules: Iterable[Rule] = ()) -> None:
    """Check that a batch has `schema`, has no null where the schema allows none, and breaks no rule.

    Raises:
        SchemaError: names the table, the column and the first row.
    """
    if not batch.schema.equals(schema, check_metadata=False):
        raise SchemaError(_schema_difference(table, schema, batch.schema), REMEDY, table=table)
    for field, column in zip(schema, batch.columns, strict=True):
        if _has_forbidden_null(column, field):
            raise _null_error(table, field, column)
    for rule in rules:
        _check_rule(table, batch, rule)


REMEDY = "Run `warpsmith-records schema` to see every column with its type and nullability."


def _refuse_unknown_names(table: str, schema: pa.Schema, row: Row, index: int) -> None:
    unknown = [name for name in row if schema.get_field_index(name) < 0]
    if unknown:
        raise SchemaError(
            f"Row {index} of `{table}` has a column `{unknown[0]}`, which is not in the schema.",
            REMEDY,
            table=table,
            column=unknown[0],
            row=index,
        )
    for field in schema:
        if pa.types.is_nested(field.type):
            _refuse_unknown_fields(table, field, row.get(field.name), index)


def _refuse_unknown_fields(table: str, field: pa.Field, value: Any, index: int) -> None:
    """Reject unknown struct keys: pyarrow silently drops them, which would turn a misspelt field into nulls."""
    if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type) and isinstance(value, list | tuple):
        for item in value:
            _refuse_unknown_fields(table, field.type.value_field.with_name(field.name), item, index)
    if not pa.types.is_struct(field.type) or not isinstance(value, Mapping):
        return
    known = {child.name: child for child in field.type.fields}
    for name, child_value in value.items():
        path = f"{field.name}.{name}"
        if name not in known:
            raise SchemaError(
                f"Row {index} of `{table}` has a field `{path}`, which is not in the schema.",
                REMEDY,
                table=table,
                column=path,
                row=index,
            )
        if pa.types.is_struct(known[name].type):
            _refuse_unknown_fields(table, known[name].with_name(path), child_value, index)


def _column(table: str, field: pa.Field, values: list[Any]) -> pa.Array:
    _refuse_naive_times(table, field, values)
    _refuse_fractions(table, field, values)
    try:
        column = pa.array(values, type=field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _conversion_error(table, field, values, error) from error
    if _has_forbidden_null(column, field):
        raise _null_error(table, field, column)
    return column


def _refuse_fractions(table: str, field: pa.Field, values: list[Any]) -> None:
    """Reject floats for integers: pyarrow truncates them, which would change ids."""
    in_list = pa.types.is_list(field.type) and pa.types.is_integer(field.type.value_type)
    if not in_list and not pa.types.is_integer(field.type):
        return
    for row, value in enumerate(values):
        items = value if in_list and isinstance(value, Iterable) else (value,)
        # Check the type first: a list of a thousand ids has one.
        if any(issubclass(kind, Real) and not issubclass(kind, Integral) for kind in set(map(type, items))):
            fraction = next((item for item in items if isinstance(item, Real) and item != item // 1), None)
            if fraction is not None:
                raise SchemaError(
                    f"Row {row} of `{table}`, column `{field.name}`: expected {field.type}, got {_shown(fraction)}.",
                    REMEDY,
                    table=table,
                    column=field.name,
                    row=row,
                )


def _refuse_naive_times(table: str, field: pa.Field, values: list[Any]) -> None:
    """Reject naive datetimes: pyarrow takes them for UTC, which is wrong for `datetime.now()` outside of UTC."""
    if not pa.types.is_timestamp(field.type):
        return
    for row, value in enumerate(values):
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            raise SchemaError(
                f"Row {row} of `{table}`, column `{field.name}`: a datetime without a time zone.",
                "Use `datetime.now(timezone.utc)`.",
                table=table,
                column=field.name,
                row=row,
            )


def _conversion_error(table: str, field: pa.Field, values: list[Any], error: Exception) -> SchemaError:
    row = next((index for index, value in enumerate(values) if not _converts(value, field.type)), None)
    got = "" if row is None else f", got {_shown(values[row])}"
    return SchemaError(
        f"Row {row} of `{table}`, column `{field.name}`: expected {field.type}{got} ({error}).",
        REMEDY,
        table=table,
        column=field.name,
        row=row,
    )


def _converts(value: Any, type_: pa.DataType) -> bool:
    try:
        pa.array([value], type=type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _shown(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 80 else text[:77] + "..."


def _null_error(table: str, field: pa.Field, column: pa.Array) -> SchemaError:
    row = _first_row(column, lambda part: _has_forbidden_null(part, field))
    return SchemaError(
        f"Row {row} of `{table}`, column `{field.name}`: a null (or a missing value) in {field.type}, "
        "which the schema does not allow.",
        REMEDY,
        table=table,
        column=field.name,
        row=row,
    )


def _has_forbidden_null(array: pa.Array, field: pa.Field) -> bool:
    """Whether `array` has a null, at any depth, where `field` and its children do not allow one."""
    if array.null_count and not field.nullable:
        return True
    if pa.types.is_struct(field.type):
        present = array.drop_null() if array.null_count else array
        return any(
            _has_forbidden_null(child, child_field)
            for child, child_field in zip(present.flatten(), field.type.fields, strict=True)
        )
    if pa.types.is_list(field.type):
        return _has_forbidden_null(array.flatten(), field.type.value_field)
    return False


def _first_row(array: pa.Array, bad: Callable[[pa.Array], bool]) -> int:
    """Index of the first row for which `bad(array[row:row + 1])` is true, found by bisection."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bad(array.slice(low, middle - low)) else (middle, high)
    return low


def _check_rule(table: str, batch: pa.RecordBatch, rule: Rule) -> None:
    broken = pc.fill_null(rule.broken(batch), True)
    if not pc.any(broken).as_py():
        return
    row = pc.index(broken, True).as_py()
    raise SchemaError(
        f"Row {row} of `{table}`: column `{rule.column}` must {rule.says}.",
        "Fix the row before recording it.",
        table=table,
        column=rule.column,
        row=row,
    )


def _schema_difference(table: str, expected: pa.Schema, got: pa.Schema) -> str:
    missing = [name for name in expected.names if name not in got.names]
    extra = [name for name in got.names if name not in expected.names]
    if missing or extra:
        return (
            f"The batch does not fit `{table}`: missing columns {missing or 'none'}, unknown columns {extra or 'none'}."
        )
    if expected.names != got.names:
        return f"The batch does not fit `{table}`: the columns are in another order, expected {expected.names}."
    other = next(name for name in expected.names if not expected.field(name).equals(got.field(name)))
    return (
        f"The batch does not fit `{table}`: column `{other}` is {_declared(got.field(other))}, "
        f"expected {_declared(expected.field(other))}."
    )


def _declared(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"
