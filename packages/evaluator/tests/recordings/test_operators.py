import re

import pytest
import torch

from warpsmith.evaluator.recordings.operators import OperatorWatch, Watched


def watch(policy="none", read_only=(), on_dtype=lambda tensor: None):
    addresses = {tensor.untyped_storage().data_ptr() for tensor in read_only}

    def refuse(name):
        raise PermissionError(name)

    return OperatorWatch(policy, lambda tensor: tensor.untyped_storage().data_ptr() in addresses, refuse, on_dtype)


@pytest.mark.parametrize(
    "use",
    [
        torch.empty_like,
        lambda x: torch.zeros(3, 4, dtype=torch.float16),
        lambda x: x.new_full((2,), 1.0),
        lambda x: x.t().contiguous().view(-1).reshape(4, 3),
        lambda x: x[1:, :2].unsqueeze(0).expand(5, 2, 2).permute(2, 0, 1),
        lambda x: x.to(torch.float64).half(),
        lambda x: torch.empty(12).copy_(x.flatten()),
        lambda x: x.chunk(2)[0].clone().fill_(0.0),
        lambda x: torch.nn.functional.pad(torch.cat([x, torch.stack(list(x))]), (1, 2)).repeat(2, 1).roll(1, 0).flip(0),
        lambda x: (torch.eye(3), torch.linspace(0, 1, 5), torch.tensor([1, 2])),
        lambda x: (x.shape, x.stride(), x.numel(), x.is_contiguous(), x.data_ptr()),
    ],
)
def test_what_only_allocates_moves_or_views_is_allowed(use):
    x = torch.randn(3, 4)
    with Watched(watch()) as operators:
        use(x)
    assert operators.refused == {}


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda x: x + x, "aten::add"),
        (torch.relu, "aten::relu"),
        (lambda x: x @ x.t(), "aten::mm"),
        (lambda x: torch.nn.functional.softmax(x, dim=-1), "aten::_softmax"),
        (lambda x: x.sum(), "aten::sum"),
        (lambda x: x.mul_(2), "aten::mul_"),
        (lambda x: torch.sort(x)[0], "aten::sort"),
        (torch.tril, "aten::tril"),
        (lambda x: x.cumsum(0), "aten::cumsum"),
        (lambda x: x[torch.tensor([0, 1])], "aten::index"),
        (lambda x: x.numpy(), "Tensor.numpy"),
        (lambda x: x.tolist(), "Tensor.tolist"),
        (torch.compile(lambda y: y * 2, backend="eager"), "aten::mul"),
    ],
)
def test_what_computes_is_noted_by_name(use, name):
    x = torch.randn(3, 4)
    with Watched(watch()) as operators:
        use(x)
    assert name in operators.refused


def averaged(x):
    return x.mean(0)


def smoothed(x):
    return torch.nn.Softplus()(x)


def exported(x):
    return x.tolist()


def line_of(function):
    """Return the line of a function's only statement."""
    return function.__code__.co_firstlineno + 1


def test_the_first_line_that_uses_an_operator_is_noted():
    x = torch.randn(3, 4)
    operators = watch()
    operators.path = __file__
    with Watched(operators):
        averaged(x)
        x.mean(1)
        smoothed(x)
        exported(x)
    assert operators.lines == {
        "aten::mean": line_of(averaged),
        "aten::softplus": line_of(smoothed),
        "Tensor.tolist": line_of(exported),
    }
    assert operators.refused == {"aten::mean": 2, "aten::softplus": 1, "Tensor.tolist": 1}


def test_a_use_from_elsewhere_has_no_line():
    operators = watch()
    operators.path = "/nowhere.py"
    with Watched(operators):
        torch.ones(3).mean()
    assert (operators.refused, operators.lines) == ({"aten::mean": 1}, {})


def into(dtype):
    return lambda x: torch.empty(x.shape, dtype=dtype).copy_(x)


CASTS = {
    "to": lambda x: x.to(torch.uint8),
    "to another": lambda x: x.to(torch.empty(1, dtype=torch.int16)),
    "type": lambda x: x.type(torch.int8),
    "type by name": lambda x: x.type("torch.ByteTensor"),
    "type_as": lambda x: x.type_as(torch.empty(1, dtype=torch.bool)),
    "bool": lambda x: x.bool(),
    "byte": lambda x: x.byte(),
    "char": lambda x: x.char(),
    "short": lambda x: x.short(),
    "copy_": into(torch.bool),
    "copy_ of fewer bits": into(torch.uint16),
    "setitem": lambda x: torch.empty(8, dtype=torch.uint8)[2:6].__setitem__(slice(None), x[0]),
    "a view of bytes": lambda x: torch.empty(x.shape, dtype=torch.int8).view(torch.bool).copy_(x),
    "fill_": lambda x: torch.empty(3, dtype=torch.uint8).fill_(x[0, 0]),
    "cat": lambda x: torch.cat([x, x], out=torch.empty(6, 4, dtype=torch.int16)),
    "stack": lambda x: torch.stack([x, x], out=torch.empty(2, 3, 4, dtype=torch.int8)),
    "in two steps": lambda x: x.to(torch.int32).to(torch.int16),
    "as_tensor": lambda x: torch.as_tensor(x, dtype=torch.uint8),
    "like": lambda x: torch.zeros_like(x, dtype=torch.bool).copy_(x.t().contiguous().t()),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint32])
def test_a_cast_of_integers_that_computes_is_noted_however_it_is_written(cast, dtype):
    x = torch.zeros(3, 4, dtype=dtype)
    with Watched(watch()) as operators:
        cast(x)
    (noted,) = operators.refused
    assert re.fullmatch(r"aten::\w+ \(u?int(64|32) to (bool|u?int(8|16))\)", noted)


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.to(torch.int32),
        lambda x: x.to(torch.uint64),
        lambda x: x.to(torch.float16),
        lambda x: torch.zeros(4, dtype=torch.bool).to(torch.int8).to(torch.int64),
        lambda x: torch.zeros(4, dtype=torch.bool).float(),
        lambda x: torch.zeros(4, dtype=torch.bool).bool().clone(),
        lambda x: torch.zeros(4, dtype=torch.uint8).to(torch.int8).view(torch.bool),
        lambda x: torch.zeros(4, dtype=torch.bool).__setitem__(1, 1),
        lambda x: torch.zeros(4, dtype=torch.uint8).__setitem__(slice(None), 7),
        lambda x: (torch.tensor([1, 0], dtype=torch.bool), torch.tensor(5, dtype=torch.int8)),
        lambda x: torch.nn.functional.pad(torch.zeros(4, dtype=torch.uint8), (1, 1), value=3),
        lambda x: torch.full((3,), 1, dtype=torch.bool).fill_(0),
        lambda x: torch.cat([torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.int16), x[0]]),
    ],
)
def test_casts_that_lose_nothing_narrowed_indices_and_written_numbers_are_allowed(cast):
    with Watched(watch()) as operators:
        cast(torch.zeros(3, 4, dtype=torch.int64))
    assert operators.refused == {}


@pytest.mark.parametrize(
    ("use", "policy"),
    [
        (lambda x: x @ x.t(), "library"),
        (lambda x: torch.sort(x)[0], "library"),
        (torch.fft.rfft, "library"),
        (torch.tril, "any"),
        (lambda x: torch.softmax(x, -1).sum(0).relu_() * 2.0, "any"),
    ],
)
def test_a_policy_allows_operators_that_compute(use, policy):
    x = torch.randn(3, 4)
    with Watched(watch(policy)) as operators:
        use(x)
    assert operators.refused == {}


@pytest.mark.parametrize("policy", ["library", "any"])
def test_inference_mode_shows_the_same_operators(policy):
    x = torch.randn(2, 3, 8, 8)
    seen = []
    for mode in (torch.no_grad, torch.inference_mode):
        operators = watch(policy)
        operators._on_library = lambda call, results: seen[-1].append(call.name)
        seen.append([])
        with mode(), Watched(operators):
            y = torch.nn.functional.conv2d(x, x[:, :, :3, :3].contiguous())
            torch.einsum("bchw,bciw->bchi", y, y).argsort()
        assert operators.refused == {}
    assert seen[0] == seen[1] != []


@pytest.mark.parametrize(
    ("use", "policy", "name"),
    [
        (torch.relu, "library", "aten::relu"),
        (lambda x: x[torch.tensor([0, 1])], "any", "aten::index"),
        (lambda x: torch.nn.functional.dropout(x, 0.5, training=True), "any", "aten::bernoulli_"),
        (torch.rand_like, "any", "aten::rand_like"),
        (torch.nonzero, "any", "aten::nonzero"),
        (lambda x: torch.linalg.inv(x[:, :3]), "any", "aten::linalg_inv_ex"),
        (lambda x: torch.nn.functional.embedding(torch.tensor([1]), x), "any", "aten::embedding"),
    ],
)
def test_no_policy_allows_chance_contents_for_addresses_or_errors_by_content(use, policy, name):
    x = torch.randn(3, 4)
    with Watched(watch(policy)) as operators:
        use(x)
    assert name in operators.refused


@pytest.mark.parametrize("write", [lambda x: x.zero_(), lambda x: x.copy_(torch.ones(4)), lambda x: x[:2].fill_(1.0)])
def test_writing_to_the_judges_memory_raises_before_it_happens(write):
    x = torch.randn(4)
    before = x.clone()
    with pytest.raises(PermissionError), Watched(watch(read_only=[x])):
        write(x)
    assert torch.equal(x, before)


def test_fewer_unsigned_bits_are_a_remainder_and_as_many_are_not():
    with Watched(watch()) as operators:
        torch.zeros(4, dtype=torch.int64).to(torch.uint32)
    assert list(operators.refused) == ["aten::_to_copy (int64 to uint32)"]
    with Watched(watch()) as operators:
        torch.zeros(4, dtype=torch.int32).to(torch.uint32)
    assert operators.refused == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64, torch.int32, torch.uint8, torch.bool])
def test_fresh_memory_holds_other_garbage_in_each_call(dtype):
    found = []
    for _ in range(2):
        with Watched(watch()):
            found.append(torch.empty(64, 100, dtype=dtype).t())
    assert float((found[0] == found[1]).to(torch.float32).mean()) < 0.8
    assert len({str(number) for number in found[0][0].tolist()}) > (1 if dtype == torch.bool else 20)


def test_garbage_of_floats_is_of_every_kind():
    with Watched(watch()):
        fresh = torch.empty(5000)
    for kind in (fresh.isnan(), fresh == 0, fresh > 1e20, fresh < -1e20, (fresh > 0) & (fresh < 1)):
        assert 10 < int(kind.sum()) < 4000


def test_each_result_is_shown_to_the_dtype_check():
    seen = []
    with Watched(watch(on_dtype=lambda tensor: seen.append(tensor.dtype))):
        torch.zeros(2).to(torch.bfloat16)
    assert torch.bfloat16 in seen


def test_a_number_may_be_added_to_a_counter_alone():
    counter, other = torch.tensor(0), torch.tensor(0)
    operators = watch()
    operators.counters = frozenset({counter.data_ptr()})
    with Watched(operators):
        counter.add_(1)
        counter += 1
    assert operators.refused == {}
    with Watched(operators):
        other.add_(1)
        counter.add_(other)
    assert operators.refused == {"aten::add_": 2}


def defined(name, fn, **options):
    return torch.library.custom_op(f"test_operators::{name}", fn, mutates_args=(), **options)


def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


def moved(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).copy_(x)


def test_an_operator_of_host_code_is_what_runs_behind_it():
    computing, moving = defined("twice", twice), defined("moved", moved)
    with Watched(watch()) as operators:
        made = moving(torch.ones(3))
    assert operators.refused == {}
    assert made.tolist() == [1.0, 1.0, 1.0]
    with Watched(watch()) as operators:
        computing(torch.ones(3))
        torch.ops.test_operators.twice(torch.ones(3))
    assert operators.refused == {"aten::add": 2}


def test_an_operator_of_a_library_is_what_runs_behind_it():
    library = torch.library.Library("test_operators_two", "DEF")
    library.define("twice(Tensor x, float factor=2.0) -> Tensor")
    library.impl("twice", lambda x, factor=2.0: x * factor, "CUDA")
    with Watched(watch()) as operators:
        made = torch.ops.test_operators_two.twice(torch.ones(3))
    assert operators.refused == {"aten::mul": 1}
    assert made.tolist() == [2.0, 2.0, 2.0]


def test_an_operator_that_torch_brings_and_computes_by_itself_is_refused():
    with Watched(watch()) as operators:
        torch.ops.quantized.add_relu  # noqa: B018
        torch.ops.prims.add(torch.ones(3), torch.ones(3))
    assert operators.refused
