"""Which problems `evaluate` and `generate` take: count, levels and split of generated problems, folders and rows."""

import json

import pytest

from warpsmith.records.errors import UsageError
from warpsmith.rollout.datasets import generated, write_directory
from warpsmith.rollout.problem_choice import ProblemChoice


def choose(where, count=None, levels=(), split=None, default_split="held_out", size=None):
    return ProblemChoice(str(where), count, split, levels, 0, default_split, size).problems()


@pytest.fixture(params=["folder", "rows.jsonl", "rows.json"])
def nine(request, tmp_path):
    """Nine problems, three of each level, as a directory or as a file of rows."""
    rows = generated(seed=0, count=9)
    place = tmp_path / request.param
    if request.param == "folder":
        write_directory(rows, place)
        return place
    columns = [{"code": row.text, "level": row.level, "name": row.name, "problem_id": n} for n, row in enumerate(rows)]
    lines = "\n".join(map(json.dumps, columns))
    place.write_text(lines if place.suffix == ".jsonl" else json.dumps(columns))
    return place


def test_all_of_a_file_are_taken_by_default(nine):
    assert len(choose(nine)) == 9
    assert [row.name for row in choose(nine, count=4)] == [row.name for row in choose(nine)][:4]


def test_levels_are_those_of_the_file(nine):
    assert {row.level for row in choose(nine, levels=(2, 3))} == {2, 3}
    assert [row.level for row in choose(nine, levels=(3,), count=2)] == [3, 3]


def test_levels_that_a_file_has_not_are_refused(nine):
    with pytest.raises(UsageError, match=r"None of the 9 problems of .* --levels 4,5; they have the levels 1, 2, 3\."):
        choose(nine, levels=(4, 5))


def test_more_problems_than_there_are_are_refused(nine):
    with pytest.raises(UsageError, match=r"--count 10 asks for more problems than the 9 of "):
        choose(nine, count=10)
    with pytest.raises(UsageError, match=r"--count 4 asks for more problems than the 3 of the levels 1 of "):
        choose(nine, count=4, levels=(1,))


def test_a_split_of_files_is_refused(nine):
    with pytest.raises(UsageError, match="--split train is for generated problems"):
        choose(nine, split="train")
    with pytest.raises(UsageError, match="--size gpu is for generated problems"):
        choose(nine, size="gpu")


def test_rows_without_levels_say_so(tmp_path):
    (tmp_path / "plain.py").write_text(generated(seed=0, count=1)[0].text)
    assert [row.level for row in choose(tmp_path)] == [None]
    with pytest.raises(UsageError, match=r"they have no levels\."):
        choose(tmp_path, levels=(1,))


def test_generated_problems_have_a_count_levels_and_a_split_of_their_own():
    assert len(choose("generated")) == 50
    assert {row.source for row in choose("generated", 4)} == {"generated/held_out"}
    assert {row.source for row in choose("generated", 4, default_split="train")} == {"generated/train"}
    assert {row.source for row in choose("generated", 4, split="train")} == {"generated/train"}
    assert {row.level for row in choose("generated", 6)} == {1, 2, 3}
    assert {row.level for row in choose("generated", 6, levels=(2,))} == {2}
    assert all("ROWS = " in row.text or "SIZE = " in row.text for row in choose("generated", 4, (1,), size="gpu"))
