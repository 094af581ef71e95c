"""Two ranks on two GPUs, over NCCL, compute what one rank on one GPU does; on two CPUs the same code runs over gloo.

Run alone: `python3 -m pytest -m gpu packages/trainer/tests/distributed -rfE -v --durations=10`.
"""

from pathlib import Path
from typing import Any

import pytest
from parallel_checks import alone_case, check_case, largest_gap
from rank_processes import WITHIN_S, RankProcesses, found_in, run_ranks, start_ranks, why_not_on

pytestmark = [pytest.mark.timeout(600)]

STAGES = (
    *("gradient:0:40:padded:dapo:-", "gradient:1:40:packed:ppo:-", "gradient:1:10000:padded:dapo:-"),
    *("gradient:2:40:padded:dapo:-", "gradient:2:10000:packed:ppo:-", "gradient:2:40:packed:dapo:10"),
    *("gradient:3:40:packed:ppo:-", "gradient:3:10000:padded:dapo:-", "gradient:3:40:padded:ppo:11"),
    *("gradient:1:40:packed:dapo:-:bfloat16", "gradient:2:40:padded:dapo:-:bfloat16"),
    *("gradient:3:40:packed:dapo:-:bfloat16", "gradient:3:10000:padded:ppo:-:bfloat16"),
    *("training:1:float32:weights", "training:2:float32:weights", "training:3:float32:weights"),
    *("training:1:bfloat16:weights", "training:3:bfloat16:weights", "training:3:float32:lora"),
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
GROUPS = {"stages": ((1, 1), STAGES), "layers": ((2, 1), LAYERS), "rows": ((1, 2), ROWS)}
"""What two ranks share, as `parallel.tensor` and `parallel.sequence`, and what they compute."""


@pytest.fixture(
    scope="module",
    params=[pytest.param("cuda", marks=pytest.mark.gpu), pytest.param("cpu", marks=(pytest.mark.slow, pytest.mark.long))],
)
def device(request: pytest.FixtureRequest) -> str:
    """The accelerator of every rank; a test is skipped where two ranks cannot have one each."""
    if why := why_not_on(request.param, 2):
        pytest.skip(why)
    return str(request.param)


@pytest.fixture(scope="module")
def one_rank(device: str, split_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RankProcesses, Path]:
    """One rank at work on all that the groups are compared with, in a process of its own, and its folder."""
    folder = tmp_path_factory.mktemp("one")
    cases = dict.fromkeys(alone_case(case) for _, cases in GROUPS.values() for case in cases)
    return start_ranks(1, split_model, folder, 1, 1, *cases, device=device), folder


@pytest.mark.parametrize("group", GROUPS)
def test_two_ranks_compute_what_one_does(
    device: str,
    one_rank: tuple[RankProcesses, Path],
    split_model: Path,
    tmp_path: Path,
    group: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes, cases = GROUPS[group]
    found = run_ranks(2, split_model, tmp_path, *sizes, *cases, device=device)
    alone, folder = one_rank
    alone.finish(WITHIN_S[device])
    expected = found_in(folder)
    show_gaps(device, group, found, expected, capsys)
    assert tuple(found) == cases
    for number, case in enumerate(cases):
        check_case(split_model, case, found[case], expected[alone_case(case)], tmp_path / str(number))


def show_gaps(
    device: str, group: str, found: dict[str, Any], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Print how near two ranks came, whether the test passes or not: a bound is judged by what was seen."""
    with capsys.disabled():
        print()
        for case, (gradients, _) in ((case, what) for case, what in found.items() if case.startswith("gradient")):
            gap, name = largest_gap(gradients, expected[alone_case(case)][0])
            print(f"  {device} {group} {case}: largest gap {gap:.2e} of the largest gradient, in {name}")
