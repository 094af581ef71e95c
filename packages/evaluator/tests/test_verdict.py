import pyarrow as pa
import pytest

from warpsmith.evaluator.exec_result import TRITONFORGE_CATEGORIES, result_of, tritonforge_category
from warpsmith.evaluator.server.answers import ExecMetadata
from warpsmith.evaluator.verdict import ERROR_CATEGORIES, STATUSES, UNRECORDED, Seconds, Verdict, invalid
from warpsmith.records.schema import VERDICT

FULL = Verdict(
    "incorrect", True, False, flags=("tf32_dot",), error_category="timeout", error_message="2 of 4 elements are wrong",
    max_abs_error=1.5, mismatched_fraction=0.5, trials=3, cached=True, seconds=Seconds(0.1, 0.2, 0.3),
)  # fmt: skip


@pytest.mark.parametrize("verdict", [FULL, invalid("lost"), Verdict("correct", True, True)])
def test_a_record_fits_the_schema_and_comes_back(verdict):
    record = verdict.to_record()
    stored = pa.array([record], type=VERDICT).to_pylist()[0]
    assert Verdict.from_record(stored) == verdict


def test_a_row_has_every_field_of_the_schema_and_no_other():
    assert set(FULL.to_row()) == {field.name for field in VERDICT}
    assert set(FULL.to_record()) - set(FULL.to_row()) == set(UNRECORDED)


def test_correct_is_said_once():
    with pytest.raises(ValueError, match="does not fit"):
        Verdict("incorrect", True, correct=True)
    with pytest.raises(ValueError, match="not one of"):
        Verdict("perfect", True, correct=False)


def test_failures_of_the_evaluator_are_invalid():
    assert invalid("x").status == "invalid"
    assert not invalid("x").correct
    assert "invalid" in STATUSES
    assert invalid("x").error_category in ERROR_CATEGORIES


def test_a_message_is_text_that_a_record_takes():
    verdict = Verdict("runtime_error", True, False, error_message=f"Value{chr(0xD800)}Error: \U0001f600")
    assert verdict.error_message == "Value?Error: \U0001f600"
    assert pa.array([verdict.to_record()], type=VERDICT).to_pylist()[0]["error_message"] == verdict.error_message


def test_a_row_of_a_table_has_the_fields_of_its_schema():
    row = Verdict("correct", compiled=True, correct=True, seconds=Seconds(0.1, 0.2, 0.3)).to_row()
    assert row.keys() == {field.name for field in VERDICT}
    (seconds,) = (field for field in VERDICT if field.name == "seconds")
    assert row["seconds"].keys() == {child.name for child in seconds.type}
    assert row["seconds"] == {"compile": 0.1, "wait": 0.2, "evaluate": 0.3}


def test_kernelbenchs_result_says_how_host_code_was_recorded():
    verdict = Verdict("correct", compiled=True, correct=True, recording="detached")
    assert result_of(verdict)["metadata"]["recording"] == verdict.to_row()["recording"] == "detached"
    assert ExecMetadata(**result_of(FULL)["metadata"]).recording is None


def test_a_verdict_without_a_way_of_recording_is_read():
    record = Verdict("correct", compiled=True, correct=True).to_record()
    del record["recording"]
    assert Verdict.from_record(record).recording is None


@pytest.mark.parametrize("category", ERROR_CATEGORIES)
def test_tritonforges_clients_get_a_category_that_they_know_and_ours_beside(category):
    metadata = result_of(Verdict("runtime_error", True, False, error_category=category))["metadata"]
    assert metadata["error_category"] in TRITONFORGE_CATEGORIES
    assert metadata["error_category"] == category or category not in TRITONFORGE_CATEGORIES
    assert metadata["error_kind"] == ExecMetadata(**metadata).error_kind == category


def test_what_tritonforge_has_no_category_for_is_unknown_there():
    found = {name: tritonforge_category(name) for name in ("name_error", "argument_error", "unsupported_dtype")}
    assert [*found.values()] == ["unknown", "triton_jit_error", "unsupported_architecture"]


def test_kernelbenchs_trials_are_all_or_none_and_described_so():
    assert result_of(FULL)["metadata"]["correctness_trials"] == "(0 / 3)"
    described = ExecMetadata.model_fields["correctness_trials"].description
    assert described.startswith("`(n / n)` for a correct kernel, else `(0 / n)`")
