"""The table of KernelBench's problems is what its script writes, and no problem of the audit is forgotten."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import problem_table

    yield problem_table
    del sys.modules["problem_table"]


def test_the_document_is_what_the_script_writes(table):
    assert table.DOCUMENT.read_text() == table.document()


def test_every_repair_is_of_the_source_that_was_audited(table):
    audited = {(one["level"], one["number"]): one for one in table.audit_held()["problems"]}
    for one in table.known():
        entry = audited[one.level, one.number]
        assert (entry["name"], entry["problem_sha256"]) == (one.name, one.sha256)
        degenerate = bool(entry["error"]) or any(entry["facts"]["passes"].values())
        assert bool(one.why) == degenerate, one.name
        assert ("24gb" in one.sets) == (table.needed(entry) > table.LARGE), one.name
