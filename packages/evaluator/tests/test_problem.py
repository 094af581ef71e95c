import json

import pytest

from warpsmith.evaluator import BadProblemError, Problem
from warpsmith.evaluator.problem import from_row, load_directory, load_jsonl

SOURCE = "class Model: pass\ndef get_inputs(): return []\n"


def test_a_kernelbench_folder_is_read_in_the_order_of_its_ids(tmp_path):
    folder = tmp_path / "level2"
    folder.mkdir()
    for name in ("10_Late.py", "2_Early.py", "notes.py"):
        (folder / name).write_text(SOURCE)
    problems = load_directory(folder)
    assert [(problem.name, problem.level) for problem in problems] == [("2_Early", 2), ("10_Late", 2)]
    assert problems[0].source_id == "level2/2_Early.py"


def test_rows_of_both_collections_are_read(tmp_path):
    rows = [
        {"code": SOURCE, "name": "19_ReLU", "level": 1, "problem_id": 19},
        {
            "label": SOURCE,
            "instance_id": "kernel_bench_triton_lv1_62",
            "extra_info": {"level": 1, "problem_name": "62_C"},
        },
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    first, second = load_jsonl(path)
    assert (first.name, first.source_id) == ("19_ReLU", "kernelbench/level1/19")
    assert (second.name, second.source_id) == ("62_C", "kernel_bench_triton_lv1_62")
    assert (first.number, second.number) == (19, 62)


@pytest.mark.parametrize("row", [{}, [], None, {"code": 1, "name": "x", "level": 1}, {"label": SOURCE}])
def test_a_row_of_another_form_is_refused(row):
    with pytest.raises(BadProblemError, match="not a problem"):
        from_row(row)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def get_inputs(): return []", "no Model"),
        ("class Model: pass", "no get_inputs"),
        ("class Model(:", "line 1"),
        ("class Model: pass\n\0", "valid Python"),
        ("x = " + "(" * 5000, "valid Python"),
        ("x = f'" + "{a}" * 80_000 + "'", "10000 opening braces"),
    ],
)
def test_bad_source_says_what_is_missing(source, reason):
    with pytest.raises(BadProblemError, match=reason):
        Problem.from_source(source)


def test_an_unreadable_file_names_itself(tmp_path):
    with pytest.raises(BadProblemError, match="nowhere"):
        Problem.from_file(tmp_path / "nowhere.py")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadProblemError, match="UTF-8"):
        Problem.from_file(tmp_path / "binary.py")
    with pytest.raises(BadProblemError, match="not a folder"):
        load_directory(tmp_path / "missing")
    with pytest.raises(BadProblemError, match="no file named"):
        load_directory(tmp_path)


def test_the_key_follows_the_source_alone():
    assert Problem("a", SOURCE).key == Problem("b", SOURCE, 3).key != Problem("a", SOURCE + "#").key


def test_reading_problems_imports_no_torch():
    import subprocess
    import sys

    code = "import sys, warpsmith.evaluator, warpsmith.evaluator.config; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
