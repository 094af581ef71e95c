"""Collections of problems in each form, and what is said of those that are none."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsmith.evaluator import BadProblemError
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.datasets.row_files import read_rows
from warpsmith.evaluator.errors import DatasetError

SOURCE = "class Model: pass\ndef get_inputs(): return []\n"
NAMES = {1: ["1_Square", "19_ReLU", "3_Add"], 2: ["1_Conv_Mul"]}
EXPECTED = [(1, 1, "1_Square"), (1, 3, "3_Add"), (1, 19, "19_ReLU"), (2, 1, "1_Conv_Mul")]


def rows():
    return [
        {"code": SOURCE, "level": level, "name": name, "problem_id": int(name.split("_")[0])}
        for level, names in NAMES.items()
        for name in names
    ]


def chat_rows():
    return [
        {
            "prompt": [{"role": "user", "content": "write"}],
            "label": row["code"],
            "instance_id": f"kernel_bench_triton_lv{row['level']}_{row['problem_id']}",
            "extra_info": {
                "level": row["level"],
                "problem_id": str(row["problem_id"]),
                "problem_name": row["name"].split("_", 1)[1],
            },
        }
        for row in rows()
    ]


def write_tree(root):
    for level, names in NAMES.items():
        folder = root / f"level{level}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.py").write_text(SOURCE)
            (folder / f"{name}.solution.py").write_text("x = 1")


def places(problems):
    return [(problem.level, problem.number, problem.name) for problem in problems]


def test_a_checkout_its_folder_and_one_level(tmp_path):
    write_tree(tmp_path / "KernelBench")
    (tmp_path / "KernelBench" / "notes").mkdir()
    assert places(load_problems(tmp_path)) == EXPECTED
    assert places(load_problems(tmp_path / "KernelBench")) == EXPECTED
    assert places(load_problems(tmp_path / "KernelBench", [2])) == EXPECTED[3:]
    assert places(load_problems(tmp_path / "KernelBench" / "level1")) == EXPECTED[:3]


def test_files_of_rows(tmp_path):
    (tmp_path / "kb.jsonl").write_text("\n".join(map(json.dumps, rows())))
    (tmp_path / "kb.json").write_text(json.dumps(rows()))
    pq.write_table(pa.Table.from_pylist(rows()), tmp_path / "kb.parquet")
    for name in ("kb.jsonl", "kb.json", "kb.parquet"):
        assert places(load_problems(tmp_path / name)) == EXPECTED
        assert places(load_problems(tmp_path / name, [1])) == EXPECTED[:3]


def test_the_rows_of_tritonforge(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, chat_rows())))
    assert places(load_problems(path)) == [(level, number, name.split("_", 1)[1]) for level, number, name in EXPECTED]


def test_a_snapshot_with_a_file_a_level(tmp_path):
    (tmp_path / "data").mkdir()
    for level in (1, 2):
        table = pa.Table.from_pylist([row for row in rows() if row["level"] == level])
        pq.write_table(table, tmp_path / "data" / f"level_{level}-00000-of-00001.parquet")
    (tmp_path / "data" / "level_3-00000-of-00001.parquet").write_bytes(b"nonsense")
    assert places(load_problems(tmp_path, [1, 2])) == EXPECTED
    with pytest.raises(DatasetError, match=r"level_3.*not a readable Parquet"):
        load_problems(tmp_path)


def test_a_line_may_hold_characters_at_which_text_is_split(tmp_path):
    row = {**rows()[0], "code": SOURCE + "# \u2028 \x0b \x85"}
    (tmp_path / "kb.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_problems(tmp_path / "kb.jsonl")[0].source == row["code"]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"level": 1}, "line 2 .*not a problem.*level \\(int\\)"),
        ({**rows()[0], "code": 3}, "line 2 .*code \\(int\\)"),
        ({**rows()[0], "code": "class Model(:"}, "line 2 .*line 1"),
        ({**rows()[0], "code": "x = 1"}, "line 2 .*no Model"),
        ({**rows()[0], "name": "again"}, "two problems 1 of level 1: 1_Square and again"),
        ({**rows()[0], "name": "nameless", "problem_id": None}, "no number"),
        ({**rows()[0], "problem_id": "1" * 5000}, "line 2 .*number of 5000 digits"),
        ({**rows()[0], "problem_id": None, "name": "1" * 5000 + "_X"}, "line 2 .*number of 5000 digits"),
        ({**rows()[0], "level": 1 << 31}, "outside 0 to 999999999"),
        ({**rows()[0], "problem_id": 7, "name": "\ud800"}, "not valid Unicode"),
        ([], "Line 2 .*JSON list"),
    ],
)
def test_a_malformed_row_is_named_with_what_to_do(tmp_path, second, says):
    (tmp_path / "kb.jsonl").write_text(json.dumps(rows()[0]) + "\n" + json.dumps(second))
    with pytest.raises(DatasetError, match=says) as caught:
        load_problems(tmp_path / "kb.jsonl")
    assert caught.value.remedy


def test_a_malformed_parquet_row_is_named(tmp_path):
    pq.write_table(pa.Table.from_pylist([rows()[0], {**rows()[1], "code": None}]), tmp_path / "kb.parquet")
    with pytest.raises(DatasetError, match=r"row 2 .*code \(NoneType\)"):
        load_problems(tmp_path / "kb.parquet")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", "{", "Line 1"),
        ("a.json", "{}", "no JSON list|not a JSON list"),
        ("a.json", "[3]", "Row 1"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.parquet", "PAR1", "Parquet"),
        ("a.csv", "x", "no dataset"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError, match=says) as caught:
        load_problems(tmp_path / name)
    assert caught.value.remedy


def test_what_is_not_there_is_named(tmp_path):
    for path, says in [
        (tmp_path / "none", "no dataset"),
        (tmp_path / "none.parquet", "Cannot read"),
        (tmp_path, "no p"),
    ]:
        with pytest.raises(DatasetError, match=says):
            load_problems(path)
    write_tree(tmp_path)
    with pytest.raises(DatasetError, match="no problem of level 3, 4"):
        load_problems(tmp_path, [1, 3, 4])
    (tmp_path / "level1" / "5_Bad.py").write_text("x =")
    with pytest.raises(BadProblemError, match="5_Bad"):
        load_problems(tmp_path)
    with pytest.raises(DatasetError, match="no known form"):
        list(read_rows(tmp_path / "rows.csv"))
