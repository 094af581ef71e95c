import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from browser import Page

# How long an example takes says nothing on a machine that does other work as well.
EXAMPLES = int(os.environ.get("WARPSMITH_EXAMPLES", "40"))
settings.register_profile("unhurried", settings(), deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")

# pytest's importlib mode leaves sys.path alone, and the tests share made_rows.
sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A closed run of three training steps, as made_rows.a_run makes it."""
    from made_rows import write_run

    return write_run(tmp_path / "run")


@pytest.fixture(scope="session")
def chromium_page(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Page]":
    """One browser for all tests; each opens its own page."""
    from browser import chromium

    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def browser(chromium_page: "Page") -> "Page":
    """The browser, wide and light, with nothing in its console."""
    chromium_page.driver.get("about:blank")
    chromium_page.resize(1440, 900)
    chromium_page.complaints()
    return chromium_page
