"""Readers of published data sets: columns, damaged rows, missing columns, encodings, forms of files."""

import csv
import json
import struct
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.problem import Problem
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.rollout.cli import main
from warpsmith.rollout.datasets import generated, write_directory
from warpsmith.rollout.datasets.formats import DatasetReader, Entry
from warpsmith.rollout.datasets.refusals import Refusal
from warpsmith.rollout.datasets.registry import DATASETS, read_dataset
from warpsmith.rollout.datasets.row_files import FORMS, stream_rows
from warpsmith.rollout.datasets.tasks import module_in
from warpsmith.rollout.errors import DatasetError

MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return []
"""
KERNELS = MODULE.replace("Model", "ModelNew")
SAKANA = {
    "Op_Name": "19_ReLU",
    "Level_ID": 1,
    "Task_ID": 19,
    "Kernel_Name": "relu_base",
    "CUDA_Runtime": 0.1,
    "CUDA_Speedup_Native": 2.0,
    "CUDA_Code": 'printf("a\\n"); // "quotes" \'\'\' \u03b1',
    "PyTorch_Code_Module": MODULE,
    "PyTorch_Code_Functional": MODULE + "\n# functional\n",
    "Correct": True,
    "Error": None,
    "NCU_Profile": "...",
    "__index_level_0__": 7,
}
ROWS = {
    "sakana": SAKANA,
    "kernelbook": {
        "entry_point": "ReLU",
        "python_code": MODULE.replace("Model", "ReLU"),
        "triton_code": MODULE.replace("Model", "ReLUNew"),
        "repo_name": "someone/something",
        "uuid": 3,
        "stars": 5,
    },
    "kernelbench": {"code": MODULE, "level": 1, "name": "19_ReLU", "problem_id": 19},
    "cuda_agent_ops": {"code": MODULE, "ops": '["relu"]', "data_source": "one"},
    "kernelllm": {"prompt": f"Rewrite this.\n\n{MODULE}\nAnswer now!", "completion": f"Here:\n```python\n{KERNELS}```"},
    "pairs": {"problem": MODULE, "kernel": KERNELS, "correct": False, "speedup": 0.5, "error": "no"},
}


def write(folder, rows, form):
    """Write rows in a form of file; CSV has text alone."""
    path = folder / f"rows{form}"
    match form:
        case ".jsonl":
            path.write_text("\n".join(map(json.dumps, rows)) + "\n")
        case ".json":
            path.write_text(json.dumps(rows))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case ".arrow":
            table = pa.Table.from_pylist(rows)
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
        case _:
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    return path


def facts(entry: Entry):
    return entry.name, entry.problem, entry.level, entry.kernel, entry.language, entry.claim


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_each_type_is_found_by_its_columns_and_read_the_same_from_every_form(tmp_path, kind):
    found = []
    for form in FORMS:
        read = read_dataset(write(tmp_path, [ROWS[kind], ROWS[kind]], form))
        assert (read.type, len(read.entries), read.refusals) == (kind, 2, [])
        assert read.entries[1].place == f"{'line' if form == '.jsonl' else 'row'} 2 of {tmp_path / f'rows{form}'}"
        found.append(facts(read.entries[0]))
    assert all(one == found[0] for one in found)
    assert Problem("p", found[0][1]).source == found[0][1]


def test_a_row_of_the_archive_is_a_candidate_in_cuda_cpp(tmp_path):
    (entry,) = read_dataset(write(tmp_path, [SAKANA], ".parquet")).entries
    assert (entry.name, entry.level, entry.language, entry.label) == ("level1/19_ReLU", 1, "cuda_cpp", "relu_base")
    assert (entry.claim.correct, entry.claim.speedup, entry.claim.error) == (True, 2.0, None)
    assert entry.problem == SAKANA["PyTorch_Code_Functional"]
    assert entry.others == (MODULE,)
    spaces: dict[str, object] = {}
    source = entry.kernel.split("_extension = ")[0].replace("from torch.utils.cpp_extension import", "# ")
    exec(source, spaces)
    assert spaces["_CUDA_CODE"] == SAKANA["CUDA_Code"]


def test_values_that_are_missing_where_they_may_be(tmp_path):
    rows = [{**SAKANA, "Correct": None, "CUDA_Speedup_Native": float("nan")}, {**SAKANA, "Correct": False}]
    first, second = read_dataset(write(tmp_path, rows, ".parquet")).entries
    assert (first.claim.correct, first.claim.speedup, second.claim.correct) == (None, None, False)


def test_kernelbook_gets_the_names_of_the_task(tmp_path):
    row = ROWS["kernelbook"]
    other = {**row, "python_code": row["python_code"] + "# another\n"}
    entry, again, second = read_dataset(write(tmp_path, [row, row, other], ".jsonl")).entries
    assert (entry.problem, entry.kernel) == (MODULE, KERNELS)
    assert entry.name.startswith("someone/something/ReLU-")
    assert entry.name == again.name != second.name


def test_kernelbench_as_checkout_folder_rows_and_tritonforge(tmp_path):
    row = {"label": MODULE, "instance_id": "lv1_19", "extra_info": {"level": 1, "problem_id": "19"}}
    row["extra_info"]["problem_name"] = "ReLU"
    jsonl = write(tmp_path, [row], ".jsonl")
    checkout = tmp_path / "checkout"
    for name in ("KernelBench/level1/19_ReLU.py", "KernelBench/level2/1_B.py", "KernelBench/level1/2_A.py"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(MODULE)
    (checkout / "scripts").mkdir()
    (checkout / "scripts/1_x.py").write_text("print()")
    (checkout / "KernelBench/level1/3_Broken.py").write_text("def (")
    for place in (checkout, checkout / "KernelBench"):
        read = read_dataset(place)
        assert read.type == "kernelbench"
        assert [entry.name for entry in read.entries] == ["level1/2_A", "level1/19_ReLU", "level2/1_B"]
        assert [one.place for one in read.refusals] == [str(checkout / "KernelBench/level1/3_Broken.py")]
    names = [entry.name for entry in read_dataset(checkout / "KernelBench/level1").entries]
    assert names == ["level1/2_A", "level1/19_ReLU"]
    assert [entry.name for entry in read_dataset(jsonl).entries] == ["level1/19_ReLU"]


def test_generated_problems_bring_their_solutions(tmp_path):
    rows = generated(seed=0, count=6)
    write_directory(rows, tmp_path)
    read = read_dataset(tmp_path)
    assert {(entry.problem, entry.kernel) for entry in read.entries} == {(row.text, row.solution) for row in rows}


@pytest.mark.parametrize("language", ["triton", "cuda_cpp"])
def test_a_kernel_whose_language_nobody_says_has_that_of_its_text(tmp_path, language):
    rows = generated(seed=0, count=6, language=language)
    write_directory(rows, tmp_path / "folder")
    assert {entry.language for entry in read_dataset(tmp_path / "folder").entries} == {language}
    path = tmp_path / "rows.jsonl"
    pairs = [{"problem": row.text, "kernel": row.solution} for row in rows]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in pairs))
    assert {entry.language for entry in read_dataset(path).entries} == {language}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", sorted(ROWS))
def test_a_missing_column_is_named_with_file_and_row_and_nothing_is_written(tmp_path, capsys, monkeypatch, kind, form):
    """In one paragraph, by the command too."""
    required = [column.name for column in DATASETS.get(kind).schema if column.required]
    missing = required[-1]
    row = {name: value for name, value in ROWS[kind].items() if name != missing}
    path = write(tmp_path, [row, row], form)
    with pytest.raises(DatasetError) as caught:
        read_dataset(path, kind)
    for part in (missing, str(path), "1"):
        assert part in caught.value.message
    assert caught.value.remedy
    output = tmp_path / "out"
    command = ["warpsmith-rollout", "verify", str(path), "--type", kind, "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert "\n\n" not in printed
    assert "Traceback" not in printed
    assert not output.exists()


def test_bad_rows_are_listed_and_the_others_kept(tmp_path):
    good = json.dumps(ROWS["pairs"])
    lines = [good, "{", "[]", json.dumps({"problem": 3}), json.dumps({"problem": "x ="}), good, "\udcff", good]
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    read = read_dataset(path, "pairs")
    assert [entry.place.split()[1] for entry in read.entries] == ["1", "6", "8"]
    assert [one.place.split()[1] for one in read.refusals] == ["2", "3", "4", "5", "7"]
    refusals = list(read.refused())
    assert len(refusals) == 5
    assert any("not UTF-8" in line and f"line 7 of {path}" in line for line in refusals)


def test_all_bad_rows_are_an_error_that_names_the_first(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"problem": "x ="}\n' * 3)
    with pytest.raises(DatasetError, match=rf"3 rows not used: .* first line 1 of {path}"):
        read_dataset(path, "pairs")


def test_other_names_of_columns(tmp_path):
    row = {"reference": MODULE, "answer": KERNELS}
    path = write(tmp_path, [row], ".csv")
    (entry,) = read_dataset(path, "pairs", columns={"problem": "reference", "kernel": "answer"}).entries
    assert (entry.problem, entry.kernel) == (MODULE, KERNELS)
    with pytest.raises(UsageError, match="no field 'code'"):
        read_dataset(path, "pairs", columns={"code": "answer"})
    with pytest.raises(DatasetError, match="columns of no known type"):
        read_dataset(path)


def test_an_unknown_type_suggests_the_nearest(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_dataset(write(tmp_path, [SAKANA], ".parquet"), "sakanna")
    assert "sakana" in caught.value.remedy


def test_a_limit_takes_the_first_usable_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("{\n" + (json.dumps(ROWS["pairs"]) + "\n") * 5)
    read = read_dataset(path, limit=2)
    assert [entry.place.split()[1] for entry in read.entries] == ["2", "3"]


@pytest.mark.parametrize(
    "prompt", [MODULE, f"```python\n{MODULE}```", f"An example:\n```\n{KERNELS}```\n\n{MODULE}\nGo."]
)
def test_a_module_is_found_in_a_prompt(prompt):
    assert module_in(prompt).strip() == MODULE.strip()


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.lists(st.integers()))


@given(st.sampled_from(sorted(ROWS)), st.data())
def test_any_value_in_any_column_is_an_entry_or_a_refusal(tmp_path_factory, kind, data):
    """And what comes out fits the evaluator and the records."""
    name = data.draw(st.sampled_from([column.name for column in DATASETS.get(kind).schema]))
    row = {**ROWS[kind], name: data.draw(VALUES)}
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    for one in DATASETS.get(kind).entries(path, {}):
        if isinstance(one, Refusal):
            assert one.reason
            continue
        one.as_problem()
        assert one.level is None or abs(one.level) < 1 << 31
        f"{one.name}{one.label}{one.kernel}{one.claim}".encode()


@given(st.binary(max_size=200), st.sampled_from(FORMS))
def test_any_bytes_are_rows_refusals_or_a_typed_error(tmp_path_factory, content, form):
    path = tmp_path_factory.mktemp("rows") / f"rows{form}"
    path.write_bytes(content)
    try:
        for place, row in stream_rows(path, ["problem"]):
            assert str(path) in place
            assert isinstance(row, Refusal | dict)
    except WarpsmithError as error:
        assert str(path) in error.message


@given(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from([".parquet", ".arrow", ".jsonl", ".csv"]))
def test_a_flipped_byte_costs_rows_or_is_a_typed_error(tmp_path_factory, place, value, form):
    path = write(tmp_path_factory.mktemp("rows"), [ROWS["pairs"]] * 3, form)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    try:
        read = read_dataset(path, "pairs")
    except WarpsmithError as error:
        assert str(path) in error.message
    else:
        assert len(read.entries) + len(read.refusals) >= 2


def test_a_text_of_negative_length_costs_its_rows(tmp_path):
    offsets = pa.py_buffer(struct.pack("<4i", 0, 3, 1, 6))
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"onetwo")])
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("problem", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([texts], ["problem"]))
    rows = [row for _, row in stream_rows(path, ["problem"])]
    assert rows[0] == {"problem": "one"}
    assert any(isinstance(row, Refusal) and row.reason == "damaged" for row in rows[1:])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("form", [".jsonl", ".json", ".csv"])
def test_text_in_other_encodings_is_read(tmp_path, encoding, form):
    row = {**ROWS["pairs"], "error": "a\u2028b\u03b1"}
    path = write(tmp_path, [row], form)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    (entry,) = read_dataset(path, "pairs").entries
    assert (entry.problem, entry.claim.error) == (MODULE, row["error"])


def test_another_package_adds_a_reader():
    assert all(isinstance(DATASETS.get(name), DatasetReader) for name in DATASETS.names())
    assert {DATASETS.get(name).name for name in DATASETS.names()} == set(DATASETS.names())
