"""What holds for the tests of every package."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the trainer's tests to one process and all others to another, where pytest-xdist has two.

    Both kinds start torch's process group, the one DeepSpeed's and the other vLLM's, and a process has one only.
    """
    for item in items:
        trains = item.path.is_relative_to(ROOT / "packages" / "trainer")
        item.add_marker(pytest.mark.xdist_group("trainer" if trains else "others"))
