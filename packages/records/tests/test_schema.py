import datetime as dt
import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import credit_row, step_row, trajectory_rows, turn_row, verdict

from warpsmith.records import RunReader, compact, schema
from warpsmith.records.schema import (
    CREDITS,
    KEYS,
    STEPS,
    TABLES,
    TURNS,
    VERDICT,
    NewerSchemaError,
    SchemaError,
    check,
    credits_batch,
    migrate,
    steps_batch,
    turns_batch,
)


def test_every_table_names_itself_and_its_version():
    for name, table in TABLES.items():
        assert table.metadata[b"warpsmith.table"] == name.encode()
        assert table.metadata[b"warpsmith.schema_version"] == b"7"


def test_keys_are_columns_that_have_no_nulls():
    for name, key in KEYS.items():
        assert all(not TABLES[name].field(column).nullable for column in key)


def test_rows_of_each_table_become_batches_of_its_schema():
    assert turns_batch([turn_row()]).schema.equals(TURNS, check_metadata=True)
    assert credits_batch([credit_row()]).schema.equals(CREDITS, check_metadata=True)
    assert steps_batch([step_row()]).schema.equals(STEPS, check_metadata=True)


def test_a_row_comes_back_as_it_was_given():
    row = turn_row()
    back = turns_batch([row]).to_pylist()[0]
    assert back.pop("logprobs") == pytest.approx(row.pop("logprobs"))
    assert back == row


def test_no_rows_make_an_empty_batch():
    assert turns_batch([]).num_rows == 0


def test_an_invalid_turn_needs_no_verdict_and_no_reward():
    row = turn_row(valid=False, invalid_reason="the worker's machine went away", verdict=None, reward=None)
    assert turns_batch([row | {"return": None}]).column("reward").null_count == 1


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("turn", "first", "expected int32, got str 'first'"),
        ("turn", True, "got bool"),
        ("turn", 1, "at least 0 and below num_turns"),
        ("turn", -1, "at least 0 and below num_turns"),
        ("after_step", -1, "at least 0 or null"),
        ("rollout_step", -1, "at least 0 or null"),
        ("run", None, "null"),
        ("messages", [{"role": "user"}], "null"),
        ("messages", [None], "null"),
        ("completion_ids", [4, None, 6, 7], "null"),
        ("completion_ids", [4, 5, 6, 2**31], "expected list<item: int32 not null>"),
        ("logprobs", [-0.1], "one entry per completion token"),
        ("weight_versions", [], "one entry per completion token"),
        ("stage", 0, "at least 1 or null"),
        ("reward", None, "set where valid is true"),
        ("reward", float("nan"), "finite"),
        ("return", float("inf"), "finite"),
        ("speedup_over_start", 0.0, "above 0 or null"),
        ("speedup_over_start", float("nan"), "above 0 or null"),
        ("valid", False, "invalid_reason"),
        ("invalid_reason", "why", "null where it is true"),
        ("started_at", dt.datetime(2025, 8, 7), "without a time zone"),
        ("sampling", {"temperature": 1.0}, "null"),
        ("verdict", verdict() | {"compiled": None}, "null"),
        ("verdict", verdict() | {"corect": True}, "verdict.corect"),
        ("verdict", verdict() | {"seconds": {"compiling": 1.0}}, "verdict.seconds.compiling"),
        ("kernal", "", "is not in the schema"),
    ],
)
def test_a_bad_value_is_refused_with_its_row_and_column(column, value, says):
    rows = [turn_row("t0"), turn_row("t1"), turn_row("t2") | {column: value}, turn_row("t3")]
    with pytest.raises(SchemaError) as caught:
        turns_batch(rows)
    assert caught.value.row == 2
    assert says in str(caught.value)
    assert caught.value.remedy
    named = caught.value.column or ""
    assert named.split(".")[0] == column or column == "valid"


def test_a_credit_that_is_no_number_is_refused():
    with pytest.raises(SchemaError, match="`advantage` must be finite"):
        credits_batch([credit_row(advantage=float("nan"))])


def test_metrics_may_be_a_mapping_or_pairs():
    one, other = step_row(metrics={"a": 1.0}), step_row(metrics=[("a", 1.0)])
    assert steps_batch([one]).equals(steps_batch([other]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda b: b.drop_columns(["kernel"]), r"missing columns \['kernel'\]"),
        (lambda b: b.append_column("extra", pa.array([1])), r"unknown columns \['extra'\]"),
        (lambda b: b.select(TURNS.names[::-1]), "another order"),
        (lambda b: b.set_column(9, pa.field("turn", pa.int64(), nullable=False), pa.array([0])), "`turn` is int64"),
        (lambda b: b.set_column(9, pa.field("turn", pa.int32()), pa.array([0], pa.int32())), "expected int32 not null"),
    ],
)
def test_a_batch_of_another_schema_is_refused_by_what_differs(change, says):
    assert TURNS.names[9] == "turn"
    with pytest.raises(SchemaError, match=says):
        check("turns", change(turns_batch([turn_row()])))


def test_a_null_smuggled_in_by_a_hand_made_batch_is_found_in_a_slice():
    rows = [turn_row(f"t{number}") for number in range(6)]
    columns = turns_batch(rows).columns
    columns[0] = pa.array(["demo"] * 4 + [None] + ["demo"])
    whole = pa.RecordBatch.from_arrays(columns, schema=TURNS)
    check("turns", whole.slice(0, 4))
    with pytest.raises(SchemaError) as caught:
        check("turns", whole.slice(3))
    assert (caught.value.row, caught.value.column) == (1, "run")


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [("completion_ids", [4, 5.5], "float 5.5"), ("after_step", 7.99, "float 7.99"), ("prompt_ids", [math.nan], "nan")],
)
def test_a_fraction_is_never_cut_off(column, value, shown):
    with pytest.raises(SchemaError, match=f"`{column}`: expected .*{shown}"):
        turns_batch([turn_row(), turn_row(**{column: value})])


def test_whole_numbers_of_any_type_are_taken():
    (row,) = turns_batch([turn_row(prompt_ids=[4.0, 5, 6], after_step=7.0)]).to_pylist()
    assert (row["prompt_ids"], row["after_step"]) == ([4, 5, 6], 7)


def test_an_unknown_field_of_a_message_is_refused():
    with pytest.raises(SchemaError, match=r"field `messages\.tool_calls`"):
        turns_batch([turn_row(messages=[{"role": "user", "content": "x", "tool_calls": "y"}])])


def test_an_unknown_table_is_refused_with_the_known_ones():
    with pytest.raises(SchemaError, match="turns, credits, steps"):
        check("turn", turns_batch([turn_row()]))


@given(
    st.fixed_dictionaries(
        {
            field.name: st.none() | st.floats(allow_nan=False, width=64)
            for field in VERDICT.fields
            if pa.types.is_floating(field.type)
        }
    ),
    st.lists(st.text(), max_size=3),
)
def test_verdicts_of_any_numbers_and_flags_come_back(numbers, flags):
    given_verdict = verdict() | numbers | {"flags": flags}
    assert turns_batch([turn_row(verdict=given_verdict)]).column("verdict")[0].as_py() == given_verdict


@given(st.lists(st.tuples(st.text(), st.text()), max_size=3), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_texts_and_tokens_of_any_kind_come_back(messages, ids):
    row = turn_row(
        messages=[{"role": role, "content": content} for role, content in messages],
        completion_ids=ids,
        logprobs=[-1.0] * len(ids),
        weight_versions=[3] * len(ids),
    )
    assert turns_batch([row]).to_pylist() == [row]


def test_older_versions_are_carried_forward_one_version_at_a_time():
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(["score" if name == "old_score" else name for name in batch.schema.names])

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"score": [2 * value for value in batch.column("score").to_pylist()]})

    oldest = pa.RecordBatch.from_pydict({"old_score": [1.0, 2.0]})
    table = {("turns", 1): renamed, ("turns", 3): doubled}
    assert migrate("turns", oldest, 1, migrations=table, current=4).to_pydict() == {"score": [2.0, 4.0]}
    assert migrate("turns", oldest, 4, migrations=table, current=4) is oldest


def test_every_version_between_the_first_and_the_current_can_be_carried_forward():
    assert all(1 <= version < schema.SCHEMA_VERSION for _, version in schema.MIGRATIONS)


@pytest.mark.parametrize(("version", "error"), [(2, NewerSchemaError), (0, SchemaError)])
def test_versions_that_do_not_exist_are_refused(version, error):
    with pytest.raises(error):
        migrate("turns", turns_batch([turn_row()]), version, current=1)


def test_errors_and_the_command_frame_import_without_pyarrow():
    code = "import warpsmith.records.errors, warpsmith.records.commands, sys; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_core_modules_import_pyarrow_alone():
    code = """
import sys
import warpsmith.records.schema, warpsmith.records.writer, warpsmith.records.reader, warpsmith.records.follower
import warpsmith.records.report, warpsmith.records.live
heavy = {"pandas", "typer", "rich", "jinja2", "duckdb", "torch", "plotly", "starlette", "uvicorn"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("version", "unjudged", "recording"),
    [(1, [], None), (2, [turn_row("none", verdict=None)], None), (3, [turn_row("none", verdict=None)], "detached")],
    ids=["version 1", "version 2", "version 3"],
)
def test_a_run_of_an_older_version_reads_as_today_and_its_unknowns_are_null(version, unjudged, recording, tmp_path):
    """The files were written by that version itself."""
    reader = RunReader(Path(__file__).parent / "data" / f"version-{version}")
    turns = reader.table("turns")
    assert turns.schema.equals(TURNS, check_metadata=True)
    old = [*trajectory_rows("old", ["incorrect", "correct"]), *unjudged]
    for row in old:
        row["verdict"] = row["verdict"] and row["verdict"] | {"recording": recording, "figures": None}
    assert turns_batch(old).equals(turns.combine_chunks().to_batches()[0])
    assert [reader.table(name).num_rows for name in ("credits", "steps")] == [2, 1]
    assert all(report.damage == () for report in reader.verify())
    assert compact(reader.run_dir, tmp_path / "out").rows == {"turns": len(old), "credits": 2, "steps": 1}


def test_a_run_of_version_4_gets_the_step_of_each_batch_and_the_new_name_of_a_mean(tmp_path):
    """The files were written by version 4 itself, and the compacted dataset has what the reader says."""
    reader = RunReader(Path(__file__).parent / "data" / "version-4")
    assert reader.table("turns").schema.equals(TURNS, check_metadata=True)
    assert reader.table("steps").schema.equals(STEPS, check_metadata=True)
    known = [(row["trajectory"], row["after_step"], row["rollout_step"]) for row in reader.table("turns").to_pylist()]
    assert known == [("old", 3, 4), ("old", 3, 4), ("held", 4, None), ("none", None, None)]
    old = [
        *trajectory_rows("old", ["incorrect", "correct"], after_step=3, rollout_step=4),
        *trajectory_rows("held", ["correct"], role="held_out", after_step=4),
        turn_row("none", verdict=None),
    ]
    assert turns_batch(without_figures(old)).equals(reader.table("turns").combine_chunks().to_batches()[0])
    (step,) = reader.table("steps").to_pylist()
    assert step["turn_return_mean"] == 0.25
    assert dict(step["metrics"]) == {"loss": 0.2, "turn_return_mean": 0.25, "turn_1/return_mean": 0.5}
    out = compact(reader.run_dir, tmp_path / "out").out
    stored = ds.dataset(out / "turns").to_table(columns=["trajectory", "turn", "rollout_step"])
    assert sorted(stored.column("rollout_step").to_pylist(), key=str) == [4, 4, None, None]


def test_turns_of_version_5_have_no_agent_and_no_start():
    """The files were written by version 5 itself."""
    turns = RunReader(Path(__file__).parent / "data" / "version-5").table("turns")
    assert turns.schema.equals(TURNS, check_metadata=True)
    old = [
        *trajectory_rows("old", ["incorrect", "correct"], after_step=3, rollout_step=4, agent=None),
        *trajectory_rows("held", ["correct"], role="held_out", after_step=4),
        turn_row("none", verdict=None),
    ]
    assert turns_batch(without_figures(old)).equals(turns.combine_chunks().to_batches()[0])


def test_verdicts_of_version_6_have_no_figures():
    """The files were written by version 6 itself."""
    turns = RunReader(Path(__file__).parent / "data" / "version-6").table("turns")
    assert turns.schema.equals(TURNS, check_metadata=True)
    assert [row and row["figures"] for row in turns.column("verdict").to_pylist()] == [None] * 4
    assert turns.column("verdict").null_count == 1


def test_figures_of_a_verdict_are_kept_by_name():
    row = turn_row()
    row["verdict"]["figures"] = [{"name": "bound_share", "value": 0.5}, {"name": "speedup.compile", "value": 1.25}]
    (kept,) = turns_batch([row]).column("verdict").to_pylist()
    assert {one["name"]: one["value"] for one in kept["figures"]} == {"bound_share": 0.5, "speedup.compile": 1.25}


def without_figures(rows):
    """Return rows as a version that had no figures wrote them."""
    return [row | {"verdict": row["verdict"] and row["verdict"] | {"figures": None}} for row in rows]


def test_turns_of_version_6_have_no_stage():
    """The files were written by version 6 itself."""
    turns = RunReader(Path(__file__).parent / "data" / "version-6").table("turns")
    assert turns.schema.equals(TURNS, check_metadata=True)
    by_an_agent = {"agent": "optimizer", "speedup_over_start": 1.5}
    old = [
        *trajectory_rows("old", ["incorrect", "correct"], after_step=3, rollout_step=4, **by_an_agent),
        *trajectory_rows("held", ["correct"], role="held_out", after_step=4),
        turn_row("none", verdict=None),
    ]
    assert turns_batch(without_figures(old)).equals(turns.combine_chunks().to_batches()[0])


def test_part_of_a_batch_of_version_4_is_migrated():
    old = trajectory_rows("old", ["incorrect", "correct", "correct"], after_step=3, rollout_step=4)
    whole = turns_batch(without_figures(old))
    written = _without("figures", whole.drop_columns(["rollout_step", "stage", "agent", "speedup_over_start"]))
    assert migrate("turns", written.slice(1), 4).equals(whole.slice(1))
    steps = steps_batch([step_row(step, turn_return_mean=0.1 * step) for step in range(3)])
    names = ["return_mean" if name == "turn_return_mean" else name for name in steps.schema.names]
    assert migrate("steps", steps.rename_columns(names).slice(1), 4).equals(steps.slice(1))


def test_part_of_a_batch_of_version_2_is_carried_forward():
    """A part of a batch has its own beginning in the columns of a struct."""
    (batch,) = RunReader(Path(__file__).parent / "data" / "version-2").table("turns").combine_chunks().to_batches()
    written = batch.drop_columns(["rollout_step", "stage", "agent", "speedup_over_start"])
    written = _without("recording", _without("figures", written))
    assert migrate("turns", written.slice(1), 2).equals(batch.slice(1))


def _without(name, batch):
    """Return turns whose verdicts lack a field."""
    place = batch.schema.get_field_index("verdict")
    older = pa.struct([field for field in batch.column(place).type if field.name != name])
    verdicts = [row and {field.name: row[field.name] for field in older} for row in batch.column(place).to_pylist()]
    return batch.set_column(place, pa.field("verdict", older), pa.array(verdicts, older))
