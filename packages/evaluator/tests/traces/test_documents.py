"""Reading the documents: what is refused, naming file and field, and what becomes a problem or a candidate."""

import ast
import copy
import json
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from trace_folders import (
    GATE,
    GATE_CANDIDATE,
    NORM,
    NORM_KERNEL,
    PICK,
    flashinfer_folder,
    norm_workload,
    sol_folder,
    solution,
    write,
    write_lines,
)

from warpsmith.evaluator.errors import DatasetError
from warpsmith.evaluator.reference.named_sizes import InputSizes
from warpsmith.evaluator.traces.dataset import format_of, read_dataset
from warpsmith.evaluator.traces.files import TraceFormatError, validated
from warpsmith.evaluator.traces.random_inputs import by_name
from warpsmith.evaluator.traces.results import traces_of
from warpsmith.evaluator.traces.schema import Definition, Solution, Tensor, Trace, Workload
from warpsmith.evaluator.traces.solutions import UnadaptedError, candidate_of, solution_of
from warpsmith.evaluator.verdict import Verdict, WorkloadResult
from warpsmith.evaluator.workloads import workloads_of

STORED = {"type": "safetensors", "path": "tables.safetensors", "tensor_key": "rows"}


def changed(document, place, value):
    """Return a document with another value at a place such as `axes.rows.type`; without it if the value is None."""
    document = copy.deepcopy(document)
    *folders, last = place.split(".")
    inside = document
    for one in folders:
        inside = inside[int(one)] if isinstance(inside, list) else inside[one]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return document


def definition_of(document):
    return validated(document, Definition, "here")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("name", None, "field name: Field required"),
        ("name", " ", "field name: a text that is not empty"),
        ("op_type", "", "field op_type: a text that is not empty"),
        ("axes.rows.type", "free", "field axes.rows"),
        ("axes.width.value", -1, r"field axes\.width\.const\.value"),
        ("axes.width.value", "48", r"field axes\.width\.const\.value"),
        ("inputs.x.dtype", "complex64", "inputs.x.dtype is 'complex64'; one of float64"),
        ("inputs.x.shape", ["rows", "depth"], "inputs.x.shape names 'depth', which the definition lacks"),
        ("inputs.x.shape", None, r"field inputs\.x\.shape: Field required"),
        ("inputs", {}, "field inputs"),
        ("outputs", {"x": NORM["inputs"]["x"]}, "x is an input and an output"),
        ("reference", "def run(x, scale, eps):\n  return (", "reference is not valid Python"),
        ("reference", "def walk(x): pass", "reference defines no function run"),
        ("reference", "def run(x): pass", "run takes x; inputs are x, scale, eps"),
        ("custom_inputs_entrypoint", "make", "defines no function make"),
        ("axes.wide", {"type": "expr", "expression": "width * heads"}, "axes.wide.expression names 'heads'"),
        ("axes.wide", {"type": "expr", "expression": "open('x')"}, "has Call in it"),
        ("axes.wide", {"type": "expr", "expression": "wide + 1"}, "axes depend on one another"),
        ("inputs.lambda", NORM["inputs"]["x"], "'lambda' is not a Python name"),
    ],
)
def test_a_malformed_definition_is_refused_with_its_field(place, value, said):
    with pytest.raises(TraceFormatError, match=said) as refused:
        definition_of(changed(NORM, place, value))
    assert "here: " in refused.value.message


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("op_type", None, "field op_type: Field required"),
        ("axes.wide", {"type": "expr", "expression": "width * 2"}, "field axes.wide"),
        ("inputs.x.dtype", "float64", "inputs.x.dtype is 'float64', which FlashInfer-trace does not have"),
        ("inputs.x.shape", ["rows", "48"], "inputs.x.shape names '48', which the definition lacks"),
        ("constraints", ["rows <"], "the constraint 'rows <' is not a Python expression"),
        ("tags", [""], "field tags.0: a text that is not empty"),
    ],
)
def test_flashinfers_own_rules_hold_for_its_definitions_alone(tmp_path, place, value, said):
    root = flashinfer_folder(tmp_path)
    document = changed(NORM, place, value)
    write(root / "definitions/norm/small_norm_h48.json", document)
    with pytest.raises(TraceFormatError, match=said):
        read_dataset(root, "flashinfer")
    assert definition_of(document).name == NORM["name"]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("workload.axes", {}, "axes.rows is missing"),
        ("workload.axes.depth", 3, "axes.depth is not a variable axis of definition small_norm_h48"),
        ("workload.axes.width", 48, "axes.width is not a variable axis"),
        ("workload.axes.rows", 2.5, r"line 2: field workload\.axes\.rows"),
        ("workload.inputs.z", {"type": "random"}, r"field inputs\.z: definition small_norm_h48 has no such input"),
        ("workload.inputs.x.type", "zeros", r"field workload\.inputs\.x"),
        ("workload.inputs.x", {"type": "scalar", "value": 1}, r"field inputs\.x: a number is given"),
        ("workload.inputs.x", {"type": "custom"}, r"field inputs\.x: type is custom, but"),
        ("workload.inputs.eps.value", float("nan"), r"field workload\.inputs\.eps\.scalar\.value: a finite number"),
        ("workload.inputs.x", STORED, r"line 2: field inputs\.x: there is no tensor file 'tables\.safetensors'"),
        ("workload.uuid", "few", "few is the UUID of another workload too"),
        ("definition", "other", "field definition: there is no definition 'other'"),
    ],
)
def test_a_malformed_workload_is_refused_with_its_line_and_field(tmp_path, place, value, said):
    root = flashinfer_folder(tmp_path)
    lines = [norm_workload("few", 3), changed(norm_workload("many", 4), place, value)]
    write_lines(root / "workloads/norm/small_norm_h48.jsonl", lines)
    with pytest.raises(TraceFormatError, match=said) as refused:
        read_dataset(root, "flashinfer").entries[NORM["name"]].problem("flashinfer")
    assert f"{root}/workloads/norm/small_norm_h48.jsonl, line 2" in refused.value.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "../secret.safetensors"}, "leads out of"),
        ({"path": "/etc/passwd"}, "leads out of"),
        ({"path": "other.safetensors"}, "there is no tensor file"),
        ({"path": "definition.json"}, "is not a safetensors file"),
        ({"path": "pointer"}, "is a pointer of Git LFS"),
        ({"tensor_key": "columns"}, "has no tensor 'columns'; it has rows"),
        ({"path": "short.safetensors"}, r"I32 of shape \[2\]; I32 of shape \[5\] was expected"),
        ({"path": "floats.safetensors"}, "F32 of shape"),
        ({"path": "large.safetensors", "tensor_key": "large"}, "can be part of a problem"),
    ],
)
def test_a_stored_tensor_that_is_not_there_is_refused(tmp_path, given, said):
    root = sol_folder(tmp_path)
    folder = root / "L1/001_pick"
    save_file({"rows": numpy.zeros(2, numpy.int32)}, folder / "short.safetensors")
    save_file({"rows": numpy.zeros(5, numpy.float32)}, folder / "floats.safetensors")
    if "large" in given.get("path", ""):
        noise = numpy.random.default_rng(0).integers(0, 1 << 31, 5 << 18, dtype=numpy.int32)
        save_file({"large": noise}, folder / "large.safetensors")
    (folder / "pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    picked = 5 << 18 if "large" in given.get("path", "") else 5
    workload = {"uuid": "a", "axes": {"count": 9, "picked": picked}, "inputs": {"index": STORED | given}}
    write_lines(folder / "workload.jsonl", [workload])
    with pytest.raises(TraceFormatError, match=said) as refused:
        read_dataset(root, "sol").entries[PICK["name"]].problem("sol")
    assert "workload.jsonl, line 1: field inputs.index" in refused.value.message


def test_problems_have_their_workloads_and_keep_what_must_not_change(tmp_path):
    pick = read_dataset(sol_folder(tmp_path), "sol").entries[PICK["name"]].problem("sol")
    (stored,) = workloads_of(pick)
    namespace = {}
    exec(compile(stored.problem.source, "problem", "exec"), namespace)
    table, index = namespace["get_inputs"]()
    assert (table.shape, index.tolist(), index.dtype) == ((9, 16), [4, 0, 2, 2, 8], torch.int32)
    assert torch.equal(namespace["Model"]()(table, index), table[index.long()])
    # Stored indices point into as many rows as there are: no trial may have fewer.
    assert {9, 5} <= set(namespace["Model"].FIXED)


def test_tensors_may_lie_in_a_folder_of_their_own(tmp_path):
    root, elsewhere = sol_folder(tmp_path / "set"), tmp_path / "blobs"
    elsewhere.mkdir()
    (root / "L1/001_pick/tables.safetensors").rename(elsewhere / "tables.safetensors")
    entry = read_dataset(root, "sol", elsewhere).entries[PICK["name"]]
    assert len(workloads_of(entry.problem("sol"))) == 1
    with pytest.raises(TraceFormatError, match=r"line 1: field inputs\.index: there is no tensor") as refused:
        read_dataset(root, "sol").entries[PICK["name"]].problem("sol")
    assert "reference" not in refused.value.message


def test_trials_change_only_the_sizes_that_a_definition_leaves_free(tmp_path):
    def sizes_of(folder, format):
        for name, entry in read_dataset(folder, format).entries.items():
            for one in workloads_of(entry.problem(format)):
                namespace = {}
                exec(compile(one.problem.source, "problem", "exec"), namespace)
                yield name, one.name, InputSizes(one.problem.source, namespace, Path("problem.py")).values

    assert list(sizes_of(flashinfer_folder(tmp_path / "a"), "flashinfer")) == [
        (NORM["name"], "few", {}), (NORM["name"], "many", {"AXIS_rows": 40})
    ]  # fmt: skip
    # Its rows are indexed by stored numbers, and the sides that custom inputs have as literals are the definition's.
    assert list(sizes_of(sol_folder(tmp_path / "b"), "sol")) == [
        (PICK["name"], "stored", {}), (GATE["name"], "made 2", {}), (GATE["name"], "made 11", {"AXIS_rows": 11})
    ]  # fmt: skip


def test_a_definition_whose_names_are_the_generated_codes_is_refused(tmp_path):
    root = flashinfer_folder(tmp_path)
    write(
        root / "definitions/norm/small_norm_h48.json", changed(NORM, "reference", f"{NORM['reference']}\nModel = 1\n")
    )
    with pytest.raises(TraceFormatError, match="field reference: it defines Model"):
        read_dataset(root, "flashinfer").entries[NORM["name"]].problem("flashinfer")


def test_formats_are_recognized_by_their_files(tmp_path):
    assert format_of(flashinfer_folder(tmp_path / "a")) == "flashinfer"
    assert format_of(sol_folder(tmp_path / "b")) == format_of(tmp_path / "b/L1/001_pick") == "sol"
    assert format_of(tmp_path / "nothing") == "kernelbench"
    (tmp_path / "empty").mkdir()
    assert format_of(tmp_path / "empty") == "kernelbench"
    with pytest.raises(DatasetError, match=r"has no definition; expected folders with definition\.json"):
        read_dataset(tmp_path / "empty", "sol")
    write(tmp_path / "a/definitions/again.json", NORM)
    with pytest.raises(TraceFormatError, match="field name: small_norm_h48 is the name of"):
        read_dataset(tmp_path / "a", "flashinfer")


@given(st.recursive(st.none() | st.integers() | st.text(max_size=8) | st.booleans(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(NORM)), inner),
                    max_leaves=12))  # fmt: skip
def test_any_json_is_a_document_or_refused(document):
    for kind in (Definition, Workload, Solution, Trace):
        try:
            validated(document, kind, "here")
        except TraceFormatError as error:
            assert error.message.startswith("here: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"language": "cuda"}, "it is in cuda"),
        ({"entry_point": "main.py::missing"}, "defines no missing"),
    ],
)
def test_solutions_that_no_candidate_can_be_made_of(change, said):
    one = Solution.model_validate(solution("one", NORM["name"], NORM_KERNEL, **change))
    with pytest.raises(UnadaptedError, match=said):
        candidate_of(one, definition_of(NORM), "flashinfer")


def test_a_solution_that_defines_what_the_generated_code_does():
    one = Solution.model_validate(solution("one", NORM["name"], f"{NORM_KERNEL}\nModelNew = launch\n"))
    with pytest.raises(UnadaptedError, match="defines ModelNew"):
        candidate_of(one, definition_of(NORM), "flashinfer")


def test_a_solution_of_two_modules_and_one_whose_output_has_an_unknown_size():
    document = solution("one", NORM["name"], NORM_KERNEL)
    document["sources"].append({"path": "helper.py", "content": ""})
    with pytest.raises(UnadaptedError, match=r"Python files main\.py, helper\.py"):
        candidate_of(Solution.model_validate(document), definition_of(NORM), "flashinfer")
    free = changed(changed(NORM, "axes.free", {"type": "var"}), "outputs.y.shape", ["free"])
    one = Solution.model_validate(solution("one", NORM["name"], NORM_KERNEL))
    with pytest.raises(UnadaptedError, match="shape of y does not follow"):
        candidate_of(one, definition_of(free), "flashinfer")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("spec.entry_point", "main.py", "FILE::FUNCTION was expected"),
        ("spec.entry_point", "other.py::run", r"names the file 'other\.py'"),
        ("spec.language", None, "language .* is missing"),
        ("sources.0.path", "../main.py", "leads out of the solution"),
        ("sources", [], "field sources"),
    ],
)
def test_a_malformed_solution_is_refused(place, value, said):
    with pytest.raises(TraceFormatError, match=said):
        validated(changed(solution("one", NORM["name"], NORM_KERNEL), place, value), Solution, "here")


def test_outputs_are_allocated_as_the_formats_own_programs_do():
    one = Solution.model_validate(solution("one", NORM["name"], NORM_KERNEL))
    made = candidate_of(one, definition_of(NORM), "flashinfer")
    assert "y = torch.empty((x.shape[0], 48), dtype=torch.float32, device=x.device)" in made
    assert "launch(x, scale, eps, y)" in made
    assert "y = torch.zeros(" in candidate_of(one, definition_of(NORM), "sol")


@pytest.mark.parametrize("format", ["flashinfer", "sol"])
def test_a_candidate_comes_back_from_the_solution_that_it_was_written_as(format):
    definition = definition_of(GATE)
    document = solution_of(GATE_CANDIDATE, definition, name="n", author="a", format=format, language="triton")
    written = validated(json.loads(json.dumps(document)), Solution, "here")
    assert candidate_of(written, definition, format) == GATE_CANDIDATE
    source = written.sources[0].content
    assert source.startswith(GATE_CANDIDATE.rstrip())
    assert not written.spec.destination_passing_style
    names = {node.name for node in ast.parse(source).body if hasattr(node, "name")}
    assert {"run", "ModelNew"} <= names
    taken = solution_of(
        f"{GATE_CANDIDATE}\nrun = 1\n", definition, name="n", author="a", format=format, language="triton"
    )
    assert taken["spec"]["entry_point"] == "main.py::run_model_new"


@pytest.mark.parametrize(
    ("result", "flashinfer", "sol"),
    [
        (("correct", None, 0.25), "PASSED", "PASSED"),
        (("incorrect", "3 of 4 elements", 0.5), "INCORRECT_NUMERICAL", "INCORRECT_NUMERICAL"),
        (("incorrect", "The output has shape (3,); expected (4,)", None), "INCORRECT_SHAPE", "INCORRECT_SHAPE"),
        (("incorrect", "The output has dtype int8; expected int32", None), "INCORRECT_DTYPE", "INCORRECT_DTYPE"),
        (("rejected", "no kernel ran", None), "RUNTIME_ERROR", "REWARD_HACK"),
        (("timeout", "too slow", None), "TIMEOUT", "TIMEOUT"),
        (("compile_error", "no", None), "COMPILE_ERROR", "COMPILE_ERROR"),
        (("undecided", "no", None), None, None),
        (("invalid", "no", None), None, None),
    ],
)
def test_each_status_has_one_of_the_formats_own_or_no_trace(result, flashinfer, sol):
    status, message, error = result
    one = WorkloadResult("w", status, True, error_message=message, max_abs_error=error)
    verdict = Verdict(status, compiled=True, correct=status == "correct", workloads=(one,))
    workload = Workload.model_validate({"uuid": "w", "axes": {"rows": 3}, "inputs": {}})
    for format, expected in (("flashinfer", flashinfer), ("sol", sol)):
        found = traces_of(
            definition_of(NORM), {"w": workload}, "s", verdict, timestamp="2026-01-01T00:00:00+00:00", format=format
        )
        assert [trace.evaluation.status for trace in found] == ([expected] if expected else [])
        for trace in found:
            again = Trace.model_validate(json.loads(json.dumps(trace.to_document(), allow_nan=False)))
            assert again == trace
            assert (trace.evaluation.correctness is not None) == (expected in ("PASSED", "INCORRECT_NUMERICAL"))


def test_times_are_written_where_there_are_any():
    one = WorkloadResult("w", "correct", True, speedup=2.0, runtime_ms=0.5, reference_ms=1.0)
    verdict = Verdict("correct", compiled=True, correct=True, device="NVIDIA H100", workloads=(one,))
    workload = Workload.model_validate({"uuid": "w", "axes": {}, "inputs": {}})
    (found,) = traces_of(definition_of(NORM), {"w": workload}, "s", verdict, timestamp="now", format="sol")
    times = {"latency_ms": 0.5, "reference_latency_ms": 1.0, "speedup_factor": 2.0}
    assert found.to_document()["evaluation"]["performance"] == times
    assert found.evaluation.correctness.max_absolute_error == "NaN"


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("input_norm_weight", lambda drawn: bool((drawn == 1).all())),
        ("q_norm_bias", lambda drawn: bool((drawn == 0).all())),
        ("causal_mask", lambda drawn: bool((drawn.tril() == 0).all()) and bool((drawn[0, 1:] < -1e30).all())),
        ("drop_mask", lambda drawn: bool(((drawn == 0) | (drawn == 1)).all())),
        ("sin", lambda drawn: bool((drawn.abs() <= 1).all())),
        ("layer_variance", lambda drawn: bool((drawn > 0).all())),
        ("A_log", lambda drawn: bool(((drawn >= -5) & (drawn <= -1)).all())),
        ("A_cumsum", lambda drawn: bool((drawn.diff(dim=-1) <= 0).all())),
        ("attn_weights", lambda drawn: torch.allclose(drawn.sum(-1), torch.ones(8))),
        ("gate_proj", lambda drawn: drawn.std() < 0.6),
        ("x", lambda drawn: drawn.std() > 0.6),
    ],
)
def test_sol_execbenchs_inputs_follow_their_names(name, check):
    torch.manual_seed(0)
    drawn = eval(by_name(name, Tensor(shape=["n", "n"], dtype="float32"), "(8, 8)"), {"torch": torch})
    assert drawn.shape == (8, 8)
    assert drawn.dtype == torch.float32
    assert check(drawn)
