"""What of a recording takes time in a call."""

import pytest

from warpsmith.evaluator.judge.stages.timed_calls import _has_only_kernels
from warpsmith.evaluator.languages.cuda_cpp.language import CUDA_CPP
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.recordings.recording import Recording

OUT = ["tensor", "fresh", 0, "float32", [4], [1], 0]
KERNEL = ["launch", "double", [1], {}, {}]


def recorded(*events):
    return Recording(None, list(events), [OUT], [], "detached")


@pytest.mark.parametrize("language", [TRITON, CUDA_CPP])
@pytest.mark.parametrize(
    ("event", "only"),
    [
        (["alloc", 0, 16], True),
        (["const", 1, b"1234"], True),
        (["literal", 1, b"1234"], True),
        (["fill", OUT, 0.0], False),
        (["copy", OUT, OUT], False),
        (["call", "flip", [OUT], OUT], False),
        (["operator", "aten::mm", [], {}, []], False),
    ],
)
def test_kernels_have_all_of_the_time_where_nothing_else_runs(language, event, only):
    assert _has_only_kernels(recorded(event, KERNEL), language) is only


def test_a_copy_to_a_variable_is_no_kernel():
    copy = ["launch", CUDA_CPP.copy_to_variable, [], {}, {}]
    assert not _has_only_kernels(recorded(KERNEL, copy), CUDA_CPP)
    assert _has_only_kernels(recorded(KERNEL, copy), TRITON), "Triton has no such launch"
