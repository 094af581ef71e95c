import sys
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other work as well.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")

# pytest's importlib mode leaves sys.path alone, and the tests share made_rows.
sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A closed run of three training steps, as made_rows.a_run makes it."""
    from made_rows import write_run

    return write_run(tmp_path / "run")
