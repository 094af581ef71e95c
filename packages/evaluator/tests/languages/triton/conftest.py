"""What the tests of the Triton language share."""

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Give Triton an empty cache for compiled kernels, so that each test compiles what it looks at."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
