"""Several languages in one candidate: what a recording's launches say of their language is checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import Hooks, OneConfiguration
from warpsmith.evaluator.languages.combined import Combined, Monitors, Tunings
from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import LaunchMonitor
from warpsmith.evaluator.languages.cuda_cpp.with_triton import CUDA_CPP

BUILT = {"build": "b", "block": [1, 1, 1], "shared": 0, "stream": 0, "cooperative": False, "cluster": [0, 0, 0]}
IN_CUDA = ["launch", "_Z3addv", [1, 1, 1], {"0": ["raw", bytes(8), []]}, BUILT | {"language": "cuda_cpp"}]
IN_TRITON = ["launch", "copy", [4], {"n": ["value", 7]}, {"num_warps": 2, "language": "triton"}]
SYMBOL = [
    "launch",
    "cudaMemcpyToSymbol",
    [],
    {"source": ["raw", bytes(4), []]},
    {"build": "b", "variable": "table", "offset": 0, "size": 4, "language": "cuda_cpp"},
]


@given(st.lists(st.sampled_from([IN_CUDA, IN_TRITON, SYMBOL, ["alloc", 0, 4]]), max_size=8))
def test_launches_keep_their_order_and_go_to_their_language_without_its_name_among_the_options(events):
    found = CUDA_CPP.launches_of(events)
    expected = [event for event in events if event in (IN_CUDA, IN_TRITON)]
    assert [(one["kernel"], one["language"]) for one in found] == [(one[1], one[4]["language"]) for one in expected]
    assert all("language" not in one["options"] for one in found)
    assert [one["options"] for one in found if one["language"] == "triton"] == [{"num_warps": 2}] * events.count(
        IN_TRITON
    )


@pytest.mark.parametrize(
    "event",
    [
        ["launch", "copy", [4], {}, {"num_warps": 2}],
        ["launch", "copy", [4], {}, {"language": "fortran"}],
        ["launch", "copy", [4], {}, {"language": ["triton"]}],
        ["launch", "copy", [4], {"n": ["value", 7]}, {"language": "cuda_cpp"}],
        ["launch", "cudaMemcpyToSymbol", [4], {"n": ["value", 7]}, {"language": "triton"}],
        [*IN_CUDA[:4], {"language": "cuda_cpp"}],
        [*IN_CUDA[:4], BUILT | {"language": "triton"}],
        "launch",
    ],
)
def test_a_launch_that_its_language_cannot_have_recorded_is_refused(event):
    with pytest.raises(WireError):
        CUDA_CPP.launches_of([IN_CUDA, event])


def test_a_recorder_hears_of_each_launch_its_language_and_their_sum():
    first, second, heard = LaunchMonitor(), LaunchMonitor(), []
    both = Monitors({"one": first, "two": second})
    first.launches, second.launches = 2, 3
    assert both.launches == 5
    both.launches = 0
    assert (first.launches, second.launches) == (0, 0)
    both.on_launch = lambda kernel, arguments, options: heard.append((kernel, options)) or [0, 0, 0]
    second.add("g", [1], {}, {"a": 1})
    first.add("f", [1], {}, {})
    assert heard == [("g", {"a": 1, "language": "two"}), ("f", {"language": "one"})]
    both.on_launch = None
    assert first.on_launch is second.on_launch is None


def test_on_a_device_whoever_asks_for_the_code_of_a_launch_names_its_language():
    asked, given = [], {}

    class Part:
        def __init__(self, name, builds_ahead):
            self.name, self.builds_ahead = name, builds_ahead

        def record_on_device(self, device, compiled, *, services=None):
            given[self.name] = (device, services)
            compiled({"kernel": f"of {self.name}"})
            return Hooks(LaunchMonitor(), OneConfiguration(), lambda storage: storage == self.name)

    hooks = Combined(Part("one", True), Part("two", False)).record_on_device("gpu", asked.append, services="services")
    assert given == {"one": ("gpu", "services"), "two": ("gpu", None)}
    assert asked == [{"kernel": "of one", "language": "one"}, {"kernel": "of two", "language": "two"}]
    assert [hooks.may_change(name) for name in ("one", "two", "three")] == [True, True, False]


def test_configurations_of_all_languages_are_reported_together():
    first, second = OneConfiguration(), OneConfiguration()
    both = Tunings([first, second])
    first.taken, second.taken, second.variants, second.timed = {"f": "A=1"}, {"g": "B=2"}, 3, True
    assert (both.taken, both.variants, both.timed) == ({"f": "A=1", "g": "B=2"}, 3, True)


def test_what_holds_for_kernels_holds_for_those_of_each_language():
    assert CUDA_CPP.cannot_form("triton_compilation_error", "at 1:1: tl.arange's range must be a power of 2")
    assert set(CUDA_CPP.parts) == {"cuda_cpp", "triton"}
    assert "TRITON_INTERPRET" not in CUDA_CPP.parts["triton"].environment(interpreting=False)
