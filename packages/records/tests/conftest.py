from pathlib import Path

import pytest
from made_rows import a_run

from warpsmith.records.writer import RunWriter


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A closed run of three training steps: two problems, two samples each, one to three turns."""
    rows = a_run(steps=3)
    with RunWriter(tmp_path / "run") as writer:
        for table, batches in rows.items():
            for batch in batches:
                writer.append(table, batch)
    return tmp_path / "run"
