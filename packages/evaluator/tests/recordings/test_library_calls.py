"""Calls of operators that compute: the form of their results, what is recorded, and what a player does with it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices.host import HostDevice
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.tensor_slots import ALIGNMENT
from warpsmith.evaluator.languages.triton.extract.extraction import Extracted
from warpsmith.evaluator.languages.triton.kernel_set import KernelSet
from warpsmith.evaluator.languages.triton.language import TRITON
from warpsmith.evaluator.languages.triton.replayed_kernels import Kernels
from warpsmith.evaluator.recordings import library_calls, library_forms
from warpsmith.evaluator.recordings.history import Called
from warpsmith.evaluator.recordings.library_calls import LibraryCallError, is_allowed, why_not
from warpsmith.evaluator.recordings.library_policy import LISTED
from warpsmith.evaluator.recordings.operators import OperatorWatch, Watched
from warpsmith.evaluator.recordings.recorder import Recorder
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.workers.gpu_stand_in import GpuHost
from warpsmith.evaluator.workers.player_host import Replay


def image(*shape):
    return torch.randn(*shape).to(memory_format=torch.channels_last)


def mean_and_variance(x):
    mean, variance = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    y = F.batch_norm(x, mean, variance, training=True, momentum=0.3)
    return torch.cat([y.flatten(), mean, variance])


USES = {
    "mm": (torch.mm, lambda: (torch.randn(3, 4), torch.randn(4, 5))),
    "mm into": (lambda a, b: torch.mm(a, b, out=torch.empty(3, 5)), lambda: (torch.randn(3, 4), torch.randn(4, 5))),
    "bmm": (torch.bmm, lambda: (torch.randn(2, 3, 4), torch.randn(2, 4, 5))),
    "matmul": (torch.matmul, lambda: (torch.randn(2, 1, 3, 4), torch.randn(5, 4, 2))),
    "matmul of a vector": (torch.matmul, lambda: (torch.randn(2, 3, 4), torch.randn(4))),
    "vector by matrix": (torch.matmul, lambda: (torch.randn(4), torch.randn(2, 4, 3))),
    "dot": (torch.dot, lambda: (torch.randn(7), torch.randn(7))),
    "mv": (torch.mv, lambda: (torch.randn(3, 7), torch.randn(7))),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        lambda: (torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)),
    ),
    "addmm in place": (
        lambda c, a, b: c.clone().addmm_(a, b),
        lambda: (torch.randn(3, 5), torch.randn(3, 4), torch.randn(4, 5)),
    ),
    "baddbmm": (torch.baddbmm, lambda: (torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))),
    "addmv": (torch.addmv, lambda: (torch.randn(3), torch.randn(3, 4), torch.randn(4))),
    "linear": (F.linear, lambda: (torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5))),
    "linear of rows": (F.linear, lambda: (torch.randn(3, 4), torch.randn(5, 4))),
    "linear across": (F.linear, lambda: (torch.randn(3, 2, 4).transpose(0, 1), torch.randn(5, 4), torch.randn(5))),
    "einsum": (lambda a, b: torch.einsum("bqc,bkc->bqk", a, b), lambda: (torch.randn(2, 3, 4), torch.randn(2, 5, 4))),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1),
        lambda: (torch.randn(2, 4, 9), torch.randn(6, 2, 3)[:, :2].repeat(1, 2, 1), torch.randn(6)),
    ),
    "conv2d in groups": (
        lambda x, w: F.conv2d(x, w, padding=(1, 0), dilation=(1, 2), groups=2),
        lambda: (torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 2)),
    ),
    "conv2d of channels last": (F.conv2d, lambda: (image(2, 4, 9, 8), torch.randn(6, 4, 3, 3))),
    "conv2d of one picture": (F.conv2d, lambda: (torch.randn(4, 9, 8), torch.randn(6, 4, 3, 3))),
    "conv2d same": (
        lambda x, w: F.conv2d(x, w, padding="same"),
        lambda: (torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 5)),
    ),
    "conv3d": (F.conv3d, lambda: (torch.randn(1, 2, 5, 6, 7), torch.randn(3, 2, 2, 3, 2))),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2),
        lambda: (torch.randn(2, 4, 5, 6), torch.randn(4, 3, 3, 3)),
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        lambda: (torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 6)),
    ),
    "masked attention of shared heads": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True),
        lambda: (torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8), torch.randn(5, 7)),
    ),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w), lambda: (torch.randn(2, 5, 6), torch.randn(6))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), lambda: (torch.randn(2, 5, 6), torch.randn(6))),
    "group_norm": (lambda x: F.group_norm(x, 2), lambda: (torch.randn(2, 4, 5, 5),)),
    "batch_norm": (mean_and_variance, lambda: (torch.randn(3, 4, 5),)),
    "instance_norm": (F.instance_norm, lambda: (torch.randn(2, 3, 5, 5),)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2), lambda: (torch.randn(2, 3, 11),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), lambda: (torch.randn(2, 3, 8, 9),)),
    "max_pool2d and where": (
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
        lambda: (torch.randn(2, 3, 8, 9),),
    ),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), lambda: (torch.randn(1, 3, 4, 6, 8),)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3), lambda: (torch.randn(2, 3, 11),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (3, 2), ceil_mode=True), lambda: (image(2, 3, 8, 9),)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), lambda: (torch.randn(1, 3, 4, 6, 8),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (1, 3)), lambda: (torch.randn(2, 3, 8, 9),)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 2), lambda: (torch.randn(2, 3, 9),)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 2), lambda: (torch.randn(2, 3, 8, 9),)),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x, n=10)), lambda: (torch.randn(3, 12),)),
    "fft and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=12), lambda: (torch.randn(3, 12),)),
    "fft of several": (lambda x: torch.view_as_real(torch.fft.fft2(x, norm="ortho")), lambda: (torch.randn(2, 3, 4),)),
    "sort": (lambda x: torch.sort(x, dim=0, descending=True)[0], lambda: (torch.randn(6, 5).t(),)),
    "stable sort": (lambda x: torch.sort(x, stable=True)[1], lambda: (torch.randn(6, 5),)),
    "argsort": (lambda x: torch.argsort(x, dim=-1), lambda: (torch.randn(6, 5),)),
    "topk": (lambda x: torch.topk(x, 2, dim=0)[1], lambda: (torch.randn(6, 5),)),
    "a module": (nn.Linear(4, 3), lambda: (torch.randn(2, 4),)),
}
"""By name, what host code calls and what makes its arguments."""


@pytest.fixture(scope="module", autouse=True)
def whole():
    """Listed operators are seen whole, as in a candidate's process."""
    kept = library_calls.keep_whole()
    yield
    for library in kept:
        library._destroy()


def arena(tensors):
    """Return memory of the judge that holds copies of tensors, and views of it with their strides."""
    sizes = [tensor.untyped_storage().nbytes() + 64 for tensor in tensors]
    buffer = _native.Buffer.create("test", max(ALIGNMENT, sum(size + -size % ALIGNMENT for size in sizes)))
    views, start = [], 0
    for tensor, size in zip(tensors, sizes, strict=True):
        flat = torch.frombuffer(buffer, dtype=tensor.dtype, offset=start, count=size // tensor.element_size())
        view = flat.as_strided(tensor.shape, tensor.stride())
        view.copy_(tensor)
        views.append(view)
        start += size + -size % ALIGNMENT
    return buffer, views


def memory_of(buffer):
    memory = Mappings(HostDevice())
    memory.buffers = {"inputs": buffer, "state": _native.Buffer.create("state", 64)}
    return memory


def recorded(use, tensors, *, computes, policy="library"):
    """Record a call on zeros in the form of tensors; return the events, and the place of the result."""
    buffer, views = arena([torch.zeros_like(tensor) for tensor in tensors])
    recorder = Recorder(memory_of(buffer), TRITON)
    watch = OperatorWatch(
        policy, lambda _: False, lambda _: None, lambda _: None, on_done=recorder.operator, on_library=recorder.library
    )
    watch.computes = computes
    with torch.no_grad(), Watched(watch):
        result = use(*views)
        described = recorder.tensor(result[0] if isinstance(result, tuple) else result)
    assert watch.refused == {}
    return recorder.events, described


def replayed(events, described, tensors):
    buffer, _ = arena(tensors)
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(buffer).buffers)
    player.run(events)
    return player.tensor(described).clone()


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("computes", [False, True])
def test_a_call_recorded_without_contents_is_the_call_on_any_contents(name, computes):
    use, make = USES[name]
    if name == "a module":
        use = lambda x: F.linear(x, torch.ones(3, 4).clone(), torch.zeros(3))  # noqa: E731
    tensors = make()
    events, described = recorded(use, tensors, computes=computes)
    with torch.no_grad():
        wanted = use(*tensors)
        wanted = wanted[0] if isinstance(wanted, tuple) else wanted
        assert any(event[0] == "operator" for event in events)
        torch.testing.assert_close(replayed(events, described, tensors), wanted)


def test_every_listed_operator_has_been_called():
    called = {
        event[1]
        for name, (use, make) in USES.items()
        if name != "a module"
        for event in recorded(use, make(), computes=False)[0]
        if event[0] == "operator"
    }
    others = {
        "aten.max_pool3d_with_indices.default",
        "aten.adaptive_avg_pool3d.default",
        "aten.adaptive_max_pool3d.default",
    }
    assert called | others == LISTED


@pytest.mark.parametrize("name", sorted(USES))
def test_the_form_of_a_result_is_that_of_the_computed_one(name):
    """Its strides too, so that kernels get the addresses that they would have."""
    use, make = USES[name]
    tensors = make()
    of_form, computed = (recorded(use, tensors, computes=computes)[1] for computes in (False, True))
    if name not in {"fft of several", "fft and back"}:
        assert of_form[3:6] == computed[3:6]


def test_any_records_what_is_written_in_place_as_the_operator_that_makes_a_tensor():
    tensors = (torch.randn(3, 4),)
    events, described = recorded(lambda x: (x * 2.0).relu_().add_(1), tensors, computes=True, policy="any")
    assert [event[1] for event in events if event[0] == "operator"] == [
        "aten.mul.Tensor",
        "aten.relu.default",
        "aten.add.Tensor",
    ]
    torch.testing.assert_close(replayed(events, described, tensors), torch.relu(tensors[0] * 2.0) + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("device", "casts"), [("cuda", False), ("cpu", True)])
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_without_a_device_autocast_of_cuda_casts_nothing_as_on_a_cpu(monkeypatch, device, casts, dtype, enabled):
    """Tensors are the host's, whatever they say of themselves; so torch applies the autocast of a CPU alone.

    A build of torch without CUDA also switches that of CUDA off; where it is on, nothing changes.
    """
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: not enabled)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    tensors = (torch.randn(3, 4), torch.randn(4, 5))

    def use(a, b):
        with torch.autocast(device, dtype=dtype):
            return torch.mm(a, b)

    with GpuHost(disguised=True):
        events, described = recorded(use, tensors, computes=False)
    (call,) = (event for event in events if event[0] == "operator")
    name = str(dtype).removeprefix("torch.") if casts else "float32"
    assert [one[3] for one in (*call[2], described)] == [name] * 3
    assert any(event[0] == "copy" for event in events) is casts
    if not casts:
        torch.testing.assert_close(replayed(events, described, tensors), torch.mm(*tensors))


X = ["tensor", "inputs", 0, "float32", [4, 4], [4, 1], 0]
FRESH = ["tensor", "fresh", 0, "float32", [4, 4], [4, 1], 0]
ALLOC = ["alloc", 0, 64]


@pytest.mark.parametrize(
    "event",
    [
        ["operator", "aten.rand_like.default", [X], {}, [FRESH]],
        ["operator", "aten.empty_like.default", [X], {}, [FRESH]],
        ["operator", "aten.nonzero.default", [X], {}, [FRESH]],
        ["operator", "prims.add.default", [X, X], {}, [FRESH]],
        ["operator", "aten.__class__.default", [X], {}, [FRESH]],
        ["operator", "aten.mm.__init__", [X, X], {}, [FRESH]],
        ["operator", "aten.mm", [X, X], {}, [FRESH]],
        ["operator", "aten.mm.default", [X, ["object", 3]], {}, [FRESH]],
        ["operator", "aten.mm.default", [X, X], {}, []],
        ["operator", "aten.mm.default", [X, X], {}, [FRESH, FRESH]],
        ["operator", "aten.mm.default", [X, X], {}, [["tensor", "fresh", 0, "float32", [2, 8], [8, 1], 0]]],
        ["operator", "aten.mm.default", [X, X], {}, [["tensor", "fresh", 0, "int32", [4, 4], [4, 1], 0]]],
        ["operator", "aten.mm.default", [X, X], {"out": X}, [FRESH]],
        ["operator", "aten.sort.default", [X], {}, [FRESH]],
    ],
)
def test_a_forged_call_is_refused(event):
    buffer, _ = arena([torch.randn(4, 4)])
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(buffer).buffers)
    with pytest.raises((WireError, LibraryCallError)):
        player.run([ALLOC, event])


def test_a_call_that_torch_refuses_says_so():
    buffer, _ = arena([torch.randn(4, 4)])
    player = Replay(Kernels(KernelSet(Extracted("", (), frozenset()))), memory_of(buffer).buffers)
    row = ["tensor", "inputs", 0, "float32", [4], [1], 0]
    with pytest.raises(LibraryCallError, match=r"aten\.mm\.default refuses its arguments"):
        player.run([ALLOC, ["operator", "aten.mm.default", [X, row], {}, [FRESH]]])


@pytest.mark.parametrize(
    ("policy", "name", "allowed"),
    [
        ("none", "aten.mm.default", False),
        ("library", "aten.mm.default", True),
        ("library", "aten.relu.default", False),
        ("any", "aten.relu.default", True),
        ("any", "aten.softmax.int", True),
        ("any", "aten.bernoulli.default", False),
        ("any", "aten.rrelu_with_noise.default", False),
        ("any", "aten.relu_.default", False),
        ("any", "aten.add.out", False),
        ("any", "aten.gather.default", False),
        ("any", "aten._scaled_dot_product_flash_attention_for_cpu.default", False),
        ("any", "aten.native_batch_norm.default", False),
        ("any", "aten.equal.default", False),
    ],
)
def test_what_a_policy_allows(policy, name, allowed):
    assert is_allowed(policy, name) is allowed


def test_attention_that_drops_nothing_is_allowed_and_other_is_not():
    name, tensors = "aten.scaled_dot_product_attention.default", [X, X, X, ["value", None]]
    assert why_not("library", name, [*tensors, ["value", 0.0]]) == ""
    assert "random" in why_not("library", name, [*tensors, ["value", 0.1]])


def test_running_statistics_of_a_normalisation_count_as_written():
    one = ["tensor", "fresh", 7, "float32", [4], [1], 0]
    arguments = [X, ["value", None], ["value", None], one, one, ["value", True]]
    call = ["operator", "aten.batch_norm.default", arguments, {}, [FRESH]]
    still = ["operator", "aten.batch_norm.default", [*arguments[:5], ["value", False]], {}, [FRESH]]
    assert Called(Form.of([], 64), {}, [ALLOC, call], []).overwritten == {7}
    assert Called(Form.of([], 64), {}, [ALLOC, still], []).overwritten == set()


def test_the_forms_are_those_of_the_list():
    assert library_forms._FORMS.keys() == LISTED
