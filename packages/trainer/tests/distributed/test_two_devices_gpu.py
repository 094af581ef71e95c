"""Two ranks on two GPUs, over NCCL, compute what one rank on one GPU does; on two CPUs the same code runs over gloo.

Run alone: `python3 -m pytest -m gpu packages/trainer/tests/distributed -rfE -v --durations=10`.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from parallel_checks import alone_case, check_case, largest_gap, norm_gap
from rank_processes import WITHIN_S, RankProcesses, found_in, run_ranks, start_ranks

pytestmark = [pytest.mark.timeout(600)]

STAGES = (
    *("gradient:0:40:padded:dapo:-", "gradient:1:40:packed:ppo:-", "gradient:1:10000:padded:dapo:-"),
    *("gradient:2:40:padded:dapo:-", "gradient:2:10000:packed:ppo:-", "gradient:2:40:packed:dapo:10"),
    *("gradient:3:40:packed:ppo:-", "gradient:3:10000:padded:dapo:-", "gradient:3:40:padded:ppo:11"),
    *("gradient:1:40:packed:dapo:-:bfloat16", "gradient:2:40:padded:dapo:-:bfloat16"),
    *("gradient:3:40:packed:dapo:-:bfloat16", "gradient:3:10000:padded:ppo:-:bfloat16"),
    *("training:1:float32:weights", "training:2:float32:weights", "training:3:float32:weights"),
    *("training:1:bfloat16:weights", "training:3:bfloat16:weights"),
)
LAYERS = (
    *("gradient:0:40:padded:ppo:-", "gradient:1:10000:packed:ppo:-", "gradient:2:40:padded:dapo:-"),
    *("gradient:1:40:packed:dapo:-:bfloat16", "gradient:2:10000:padded:ppo:-:bfloat16"),
    *("training:1:float32:weights", "training:2:float32:weights", "training:2:bfloat16:weights"),
)
# On a GPU `varlen` attention, which ranks that share rows need, takes 16-bit numbers only.
ROWS = (
    *("gradient:1:40:packed:dapo:-:bfloat16", "gradient:2:40:padded:dapo:-:bfloat16"),
    *("gradient:3:10000:packed:ppo:-:bfloat16", "gradient:3:40:padded:ppo:-:bfloat16"),
    *("training:1:bfloat16:weights", "training:3:bfloat16:weights"),
)
ADAPTERS = ("training:2:float32:lora", "training:3:float32:lora")
GROUPS = {
    "stages": ((1, 1), STAGES),
    "layers": ((2, 1), LAYERS),
    "rows": ((1, 2), ROWS),
    "adapters": ((1, 1), ADAPTERS),
}
"""What two ranks share, as `parallel.tensor` and `parallel.sequence`, and what they compute."""

SHARES = {"cpu": 1e-6, "cuda": 3e-6}
"""Largest gap in fp32, as a share of the largest gradient: what another order of the sums explains.

fp32 has 1.2e-7. On CPUs, ranks that share layers came to 1.0e-6: each sum in two halves, forth and back through two
layers. On a GPU even one rank sums in another order for another number of rows, since cuBLAS picks its tiles by shape,
so three times that is allowed. A rank's share that is lost or counted twice is more than 1e-2.
"""


@pytest.fixture(scope="module")
def one_rank(
    accelerator: str, split_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RankProcesses, Path]]:
    """One rank at work on all that the groups are compared with, in a process of its own, and its folder."""
    folder = tmp_path_factory.mktemp("one")
    able = [cases for name, (_, cases) in GROUPS.items() if name != "adapters" or find_spec("peft")]
    cases = dict.fromkeys(alone_case(case) for cases in able for case in cases)
    alone = start_ranks(1, split_model, folder, 1, 1, *cases, device=accelerator)
    yield alone, folder
    alone.kill()


@pytest.mark.parametrize("group", GROUPS)
def test_two_ranks_compute_what_one_does(
    accelerator: str,
    one_rank: tuple[RankProcesses, Path],
    split_model: Path,
    tmp_path: Path,
    group: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if group == "adapters":
        pytest.importorskip("peft")
    sizes, cases = GROUPS[group]
    found = run_ranks(2, split_model, tmp_path, *sizes, *cases, device=accelerator)
    alone, folder = one_rank
    alone.finish(WITHIN_S[accelerator])
    expected = found_in(folder)
    show_gaps(accelerator, group, found, expected, capsys)
    assert tuple(found) == cases
    for number, case in enumerate(cases):
        check_case(
            split_model, case, found[case], expected[alone_case(case)], tmp_path / str(number), SHARES[accelerator]
        )


def show_gaps(
    device: str, group: str, found: dict[str, Any], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Print how near two ranks came, whether the test passes or not: a bound is judged by what was seen."""
    with capsys.disabled():
        print()
        for case, (gradients, _) in ((case, what) for case, what in found.items() if case.startswith("gradient")):
            other = expected[alone_case(case)][0]
            (gap, place), (norm, name) = largest_gap(gradients, other), norm_gap(gradients, other)
            print(f"  {device} {group} {case}: largest gap {gap:.2e} of the largest gradient ({place}),")
            print(f"    of a tensor at most {norm:.2e} in norm ({name})")
