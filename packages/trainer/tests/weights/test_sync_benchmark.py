"""The benchmark of weight syncs, on a CPU: both transports from ranks without DeepSpeed and under ZeRO-3."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "benchmarks/weight_sync.py"


@pytest.mark.slow
@pytest.mark.long  # test_sync_faults.py syncs from ZeRO-3 by a stream; this starts three processes and Ray once more
def test_both_transports_are_measured_by_phase(tmp_path: Path) -> None:
    if not SCRIPT.is_file():
        pytest.skip("needs a checkout of the repository")
    out = tmp_path / "weight_sync.json"
    command = [sys.executable, str(SCRIPT), "--tiny", "--ranks", "2", "--stages", "0,3", "--syncs", "2"]
    subprocess.run([*command, "--out", str(out)], check=True, timeout=280)
    (run,) = json.loads(out.read_text())["runs"]
    assert run["error"] is None
    found = {(row["stage"], row["transport"], row["ranks"]) for row in run["medians"]}
    assert found == {(stage, transport, 2) for stage in ("0", "3") for transport in ("device", "host")}
    assert all(row["seconds"] > 0 and row["sync_load_s"] > 0 and row["gap"] < 1e-3 for row in run["syncs"])
