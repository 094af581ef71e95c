"""Which device the corpus is judged on: `--attack-device cuda`, or WARPSMITH_ATTACK_DEVICE=cuda.

`--attack-recording on_device` records host code where kernels run, in place of detached. `--attack-trials 6` judges
honest kernels in as many trials as an evaluator takes where nobody says.
"""

import os

import pytest
from covering import covering

DEVICES = ("cpu", "cuda")
TRIALS = 3


def pytest_addoption(parser):
    parser.addoption(
        "--attack-device",
        choices=DEVICES,
        default=None,
        help="device of the evaluator that judges tests/attacks; WARPSMITH_ATTACK_DEVICE says it too (default: cpu)",
    )
    parser.addoption(
        "--attack-recording",
        choices=("detached", "on_device"),
        default="detached",
        help="how host code of tests/attacks is recorded (default: detached)",
    )
    parser.addoption(
        "--attack-trials",
        type=int,
        default=TRIALS,
        help=f"trials of each honest kernel of tests/attacks (default: {TRIALS})",
    )


def attack_device(config):
    """Return the device that was asked for; the option is unknown where pytest was started above this folder."""
    asked = config.getoption("attack_device", default=None) or os.environ.get("WARPSMITH_ATTACK_DEVICE", "cpu")
    if asked not in DEVICES:
        raise pytest.UsageError(f"WARPSMITH_ATTACK_DEVICE is {asked!r}; expected {' or '.join(DEVICES)}")
    return asked


@pytest.fixture(scope="session")
def device(pytestconfig):
    return attack_device(pytestconfig)


@pytest.fixture(scope="session")
def recording(pytestconfig):
    return pytestconfig.getoption("attack_recording", default="detached")


@pytest.fixture(scope="session")
def trials(pytestconfig):
    return pytestconfig.getoption("attack_trials", default=TRIALS)


@pytest.fixture(scope="session")
def detached(recording):
    return recording == "detached"


def pytest_generate_tests(metafunc):
    """Give each test that names a kind of candidate (`FOLDERS` of its module) the files of that kind for the device."""
    folders = getattr(metafunc.module, "FOLDERS", {})
    device = attack_device(metafunc.config)
    for kind in folders.keys() & set(metafunc.fixturenames):
        paths = metafunc.module.files(folders[kind], device)
        every_run = _of_every_run(kind, paths, device)
        marks = {
            path: [pytest.mark.slow] * metafunc.module.is_slow(path) + [pytest.mark.long] * (path not in every_run)
            for path in paths
        }
        metafunc.parametrize(kind, [pytest.param(path, id=path.stem, marks=marks[path]) for path in paths])


def _of_every_run(kind, paths, device):
    """Return all attacks and mistakes, and of honest kernels those that have all constructs; on a GPU every file."""
    if kind != "control" or device != "cpu":
        return set(paths)
    chosen = covering({path.stem: path.read_text(encoding="utf-8") for path in paths})
    return {path for path in paths if path.stem in chosen}
