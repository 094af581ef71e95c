"""Convolutions in a player: cuDNN writes the result where it belongs, and the numbers are torch's own."""

import pytest
import torch

from warpsmith.evaluator.recordings import library_calls

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")]
ROWS = torch.contiguous_format
LAST = torch.channels_last


def case(source, weight, *, bias=True, stride=1, padding=0, dilation=1, groups=1, transposed=False, layout=ROWS):
    """Return the arguments of `aten.convolution` of given shapes."""
    sides = len(source) - 2
    outputs = weight[1] * groups if transposed else weight[0]
    tensors = [
        torch.randn(source).to(memory_format=layout),
        torch.randn(weight),
        torch.randn(outputs) if bias else None,
    ]
    return [*tensors, [stride] * sides, [padding] * sides, [dilation] * sides, transposed, [0] * sides, groups]


WRITTEN = {
    "plane": lambda: case((2, 3, 17, 18), (5, 3, 3, 3)),
    "plane without bias": lambda: case((2, 3, 17, 18), (5, 3, 3, 3), bias=False),
    "strides": lambda: case((2, 4, 19, 18), (6, 4, 3, 5), stride=2, padding=1, dilation=2),
    "groups": lambda: case((2, 4, 19, 18), (6, 2, 3, 3), groups=2),
    "volume": lambda: case((2, 3, 7, 9, 8), (4, 3, 3, 3, 3), padding=1),
    "line": lambda: case((2, 3, 17), (5, 3, 3)),
    "line with strides": lambda: case((2, 4, 40), (6, 2, 5), stride=3, padding=2, dilation=2, groups=2),
}
COPIED = {
    "channels last": lambda: case((2, 3, 17, 18), (5, 3, 3, 3), layout=LAST),
    "point": lambda: case((2, 3, 17, 18), (5, 3, 1, 1)),
    "transposed": lambda: case((2, 3, 17, 18), (3, 5, 3, 3), stride=2, transposed=True),
    "transposed line": lambda: case((2, 3, 17), (3, 5, 3), stride=2, padding=1, transposed=True),
}


def described(given, device):
    """Return the event's arguments, and the tensors that they name."""
    tensors = {}

    def name(tensor):
        tensors[len(tensors)] = tensor.to(device)
        return ["tensor", len(tensors) - 1]

    return [library_calls.described(one, name) for one in given], tensors


@pytest.mark.parametrize("chosen", [pytest.param(name, marks=gpu) for name in [*WRITTEN, *COPIED]])
def test_the_result_is_that_of_torch(chosen, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    given = {**WRITTEN, **COPIED}[chosen]()
    arguments, tensors = described(given, "cuda")
    on_device = [one.cuda() if isinstance(one, torch.Tensor) else one for one in given]
    expected = torch.ops.aten.convolution.default(*on_device)
    into = torch.full_like(expected, float("nan"))
    tensors["result"] = into
    assert library_calls.by_cudnn(*library_calls.as_planes(on_device, [into])) is (chosen in WRITTEN)
    run = library_calls.repeated(
        library_calls.CONVOLUTION, arguments, {}, [["tensor", "result"]], lambda part: tensors[part[1]]
    )
    for _ in range(2):
        into.fill_(float("nan"))
        run()
        # The same algorithm, so the same numbers but for sums in another order.
        torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chosen", [*WRITTEN, *COPIED])
def test_on_a_cpu_torch_chooses_and_the_result_is_copied(chosen):
    given = {**WRITTEN, **COPIED}[chosen]()
    expected = torch.ops.aten.convolution.default(*given)
    into = torch.full_like(expected, float("nan"))
    assert not library_calls.by_cudnn(given, [into])
    arguments, tensors = described(given, "cpu")
    tensors["result"] = into
    library_calls.repeated(
        library_calls.CONVOLUTION, arguments, {}, [["tensor", "result"]], lambda part: tensors[part[1]]
    )()
    torch.testing.assert_close(into, expected)


def test_arguments_that_do_not_fit_are_left_to_the_call():
    given = case((2, 3, 17, 18), (5, 4, 3, 3))
    assert not library_calls.by_cudnn(given, [torch.empty(2, 5, 15, 16)])
    assert not library_calls.by_cudnn(given[:4], [torch.empty(2, 5, 15, 16)])


LINES = {name: make for name, make in {**WRITTEN, **COPIED}.items() if "line" in name}


@pytest.mark.parametrize("chosen", LINES)
def test_a_convolution_of_lines_is_one_of_planes_with_one_row(chosen):
    given = LINES[chosen]()
    expected = torch.ops.aten.convolution.default(*given)
    into = torch.empty_like(expected)
    planes, [result] = library_calls.as_planes(given, [into])
    result.copy_(torch.ops.aten.convolution.default(*planes))
    assert result.dim() == 4
    torch.testing.assert_close(into, expected)


@pytest.mark.parametrize("chosen", {**WRITTEN, **COPIED}.keys() - LINES.keys())
def test_other_convolutions_stay_as_they_are(chosen):
    given = {**WRITTEN, **COPIED}[chosen]()
    into = [torch.ops.aten.convolution.default(*given)]
    found, results = library_calls.as_planes(given, into)
    assert all(one is other for one, other in zip([*found, *results], [*given, *into], strict=True))


def test_malformed_arguments_of_a_convolution_stay_for_torch_to_refuse():
    given, into = [torch.ones(2, 3, 4), "weight"], [torch.ones(2, 3, 4)]
    assert library_calls.as_planes(given, into) == (given, into)
