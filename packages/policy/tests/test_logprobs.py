"""Log-probs, entropies and their gradients against a plain log-softmax in double precision."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.policy.attention import register
from warpsmith.policy.errors import UnsupportedModelError
from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import restarting_positions, sequence_starts, token_figures, token_logprobs, unwrap


def random_ids(policy, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, policy.model.config.vocab_size, shape, generator=generator)


def plain(model, ids_T: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One unpadded sequence: all logits at once, in double precision from there on."""
    logits_TV = model(ids_T[None], use_cache=False).logits[0].double() / temperature
    logp_TV = logits_TV.log_softmax(-1)
    entropy_T = -(logp_TV.exp() * logp_TV).sum(-1)
    zero = logp_TV.new_zeros(1)
    return torch.cat([zero, logp_TV[:-1].gather(1, ids_T[1:, None])[:, 0]]), torch.cat([zero, entropy_T[:-1]])


def padded(sequences: list[torch.Tensor], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, sequences))
    ids, mask = (
        torch.zeros(len(sequences), width, dtype=torch.long),
        torch.zeros(len(sequences), width, dtype=torch.long),
    )
    for row, sequence in enumerate(sequences):
        place = slice(0, len(sequence)) if side == "right" else slice(width - len(sequence), width)
        ids[row, place], mask[row, place] = sequence, 1
    return ids, mask


def packed(sequences: list[torch.Tensor], width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    row = torch.cat(sequences)
    spare = width - len(row)
    positions = torch.cat([torch.arange(len(s)) for s in sequences])
    mask = torch.ones(len(row), dtype=torch.long)
    return tuple(torch.nn.functional.pad(t, (0, spare))[None] for t in (row, mask, positions))


LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(
    lengths=LENGTHS,
    side=st.sampled_from(["left", "right"]),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    at_once=st.sampled_from([1, 900, 2**25]),
)
def test_against_double_precision(shared_policy, lengths, side, temperature, at_once):
    sequences = [random_ids(shared_policy, n, seed=n) for n in lengths]
    ids, mask = padded(sequences, side)
    logprobs, entropy = token_logprobs(shared_policy.model, ids, mask, temperature, logits_at_once=at_once)
    assert logprobs.dtype == entropy.dtype == torch.float32
    assert not logprobs[mask == 0].any()
    assert not entropy[mask == 0].any()
    for row, sequence in enumerate(sequences):
        expected, spread = plain(shared_policy.model, sequence, temperature)
        torch.testing.assert_close(logprobs[row, mask[row] == 1].double(), expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(entropy[row, mask[row] == 1].double(), spread, atol=1e-5, rtol=0)


@pytest.mark.parametrize("at_once", [1, 2**25])
@pytest.mark.parametrize("with_value", [False, True])
def test_the_likeliest_tokens_are_those_that_argmax_gives(shared_policy, at_once, with_value):
    ids = random_ids(shared_policy, 1, 12, seed=3)
    head = torch.nn.Linear(shared_policy.model.config.hidden_size, 1) if with_value else None
    with torch.no_grad():
        likeliest = shared_policy.model(ids, use_cache=False).logits[:, :-1].argmax(-1)
        ids[0, 3::3] = likeliest[0, 2::3]
        likeliest = shared_policy.model(ids, use_cache=False).logits[:, :-1].argmax(-1)
        found = token_figures(
            shared_policy.model, ids, torch.ones_like(ids), value_head=head, greedy=True, logits_at_once=at_once
        )
    expected = (ids[:, 1:] == likeliest).float()
    assert 0 < expected.sum() < expected.numel()
    assert found.greedy_BT is not None
    assert torch.equal(found.greedy_BT[:, 1:], expected)
    assert not found.greedy_BT[:, 0].any()
    assert (found.value_BT is not None) == with_value


@settings(max_examples=25, deadline=None)
@given(lengths=LENGTHS, spare=st.integers(0, 5))
def test_packed_row_agrees_with_rows_apart(shared_policy, lengths, spare):
    sequences = [random_ids(shared_policy, n, seed=n + 50) for n in lengths]
    ids, mask, positions = packed(sequences, sum(lengths) + spare)
    got = torch.stack(token_logprobs(shared_policy.model, ids, mask, 0.8, positions))[:, 0]
    apart = [torch.stack(plain(shared_policy.model, s, 0.8)) for s in sequences]
    expected = torch.nn.functional.pad(torch.cat(apart, 1), (0, spare))
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=0)


def test_a_neighbour_in_the_row_changes_nothing(shared_policy):
    ours, one, other = (random_ids(shared_policy, 9, seed=s) for s in range(3))
    tails = [token_logprobs(shared_policy.model, *_packed_call([left, ours]))[0][0, 9:] for left in (one, other)]
    assert torch.equal(*tails)
    without_restart, mask, _ = packed([one, ours], 18)
    joined = token_logprobs(shared_policy.model, without_restart, mask)[0][0, 9:]
    assert (joined - tails[0]).abs().max() > 1e-3


@pytest.mark.parametrize("attention", ["sdpa", "eager", "varlen"])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("qwen3", {"use_sliding_window": False}),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
        ("qwen2", {}),
        ("llama", {}),
    ],
)
def test_packing_under_each_attention(attention, family, settings):
    """Sequences longer than a sliding window, so that a lost window would show."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family, vocab_size=300, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        head_dim=32, num_key_value_heads=1, initializer_range=0.3, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    register()
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    sequences = [torch.randint(0, 300, (n,)) for n in (9, 1, 12)]
    got = token_logprobs(model, *_packed_call(sequences))[0][0]
    expected = torch.cat([plain(model, s, 1.0)[0] for s in sequences])
    torch.testing.assert_close(got.double(), expected, atol=1e-4, rtol=0)


def _packed_call(sequences):
    ids, mask, positions = packed(sequences, sum(map(len, sequences)))
    return ids, mask, 1.0, positions


def test_greedy_temperature_counts_as_one(shared_policy):
    ids = random_ids(shared_policy, 2, 7)
    mask = torch.ones_like(ids)
    at_zero, at_one = (token_logprobs(shared_policy.model, ids, mask, t)[0] for t in (0.0, 1.0))
    assert torch.equal(at_zero, at_one)


def test_select_leaves_the_rest_at_zero(shared_policy):
    ids = random_ids(shared_policy, 2, 9)
    mask, select = torch.ones_like(ids), torch.zeros_like(ids)
    select[0, 4:7], select[1, 0] = 1, 1
    everything = torch.stack(token_logprobs(shared_policy.model, ids, mask))
    some = torch.stack(token_logprobs(shared_policy.model, ids, mask, select_BT=select))
    torch.testing.assert_close(some[:, 0, 4:7], everything[:, 0, 4:7], atol=1e-6, rtol=0)
    select[1, 0] = 0
    assert not some[:, select == 0].any()


# Gradients -------------------------------------------------------------------------------------------------------


def weights_for(ids: torch.Tensor) -> torch.Tensor:
    return torch.randn(2, *ids.shape, generator=torch.Generator().manual_seed(1))


def gradients(model) -> dict[str, torch.Tensor]:
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


@pytest.mark.parametrize("at_once", [500, 2**25])
def test_gradients_of_both_results(policy, at_once):
    ids = random_ids(policy, 2, 11)
    weights = weights_for(ids)
    got = torch.stack(token_logprobs(policy.model, ids, torch.ones_like(ids), 0.7, logits_at_once=at_once))
    (got * weights).sum().backward()
    ours = gradients(policy.model)
    rows = [torch.stack(plain(policy.model, row, 0.7)) for row in ids]
    (torch.stack(rows, 1) * weights).sum().backward()
    theirs = gradients(policy.model)
    assert ours.keys() == theirs.keys() == dict(policy.model.named_parameters()).keys()
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, atol=2e-5, rtol=1e-4)


def test_function_passes_gradcheck(policy):
    from warpsmith.policy.logprobs import Work, linear_stats

    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 4), (7, 4), (7,))
    operands = [torch.randn(*s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    work = Work(torch.tensor([0, 6, 3, 3, 1]), 0.6, 2)
    assert torch.autograd.gradcheck(lambda *t: linear_stats(*t, work), operands)


def test_a_value_is_of_the_state_before_its_token(shared_policy):
    model, sequences = shared_policy.model, [random_ids(shared_policy, n, seed=n) for n in (7, 4)]
    head = torch.nn.Linear(model.config.hidden_size, 1)
    ids, mask, positions = packed(sequences, 12)
    with torch.no_grad():
        rows = token_figures(model, *padded(sequences, "right"), value_head=head)
        row = token_figures(model, ids, mask, 0.7, positions, value_head=head)
        assert rows.value_BT is not None and row.value_BT is not None
        for number, sequence in enumerate(sequences):
            states = model(sequence[None], output_hidden_states=True).hidden_states[-1]
            expected = torch.cat([torch.zeros(1), head(states)[0, :-1, 0]])
            assert torch.allclose(rows.value_BT[number, : len(sequence)], expected, atol=1e-5)
        assert torch.allclose(row.value_BT[0, 8:11], rows.value_BT[1, 1:4], atol=1e-5)
        plain_row = token_logprobs(model, ids, mask, 0.7, positions)
    assert torch.equal(plain_row[0], row.logprobs_BT)
    assert torch.equal(plain_row[1], row.entropy_BT)
    assert token_figures(model, ids, mask).value_BT is None


def test_nothing_selected_still_has_a_backward(policy):
    ids = random_ids(policy, 1, 5)
    logprobs, _ = token_logprobs(policy.model, ids, torch.ones_like(ids), select_BT=torch.zeros_like(ids))
    logprobs.sum().backward()
    assert all(not g.any() for g in gradients(policy.model).values())


def test_gradients_survive_activation_checkpointing(policy):
    ids = random_ids(policy, 1, 9)
    token_logprobs(policy.model, ids, torch.ones_like(ids))[0].sum().backward()
    expected = gradients(policy.model)
    policy.model.train()
    policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    token_logprobs(policy.model, ids, torch.ones_like(ids))[0].sum().backward()
    for name, grad in gradients(policy.model).items():
        torch.testing.assert_close(grad, expected[name], atol=1e-5, rtol=1e-5)


# Memory, precision, wrappers -------------------------------------------------------------------------------------


class LogitRows(TorchDispatchMode):
    """Notes how many rows over the vocabulary every operation makes."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary, self.rows = vocabulary, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.ndim and tensor.shape[-1] == self.vocabulary:
                self.rows.add(tensor.numel() // self.vocabulary)
        return result


def test_logits_are_never_held_whole(policy):
    config = policy.model.config
    ids = random_ids(policy, 5, 17)
    with LogitRows(config.vocab_size) as seen:
        results = token_logprobs(policy.model, ids, torch.ones_like(ids), logits_at_once=8 * config.vocab_size)
        (results[0] + results[1]).sum().backward()
    transposed_weight = config.hidden_size
    assert max(seen.rows - {transposed_weight}) == 8


def test_bfloat16_stays_close_and_answers_in_fp32(tiny_dir, shared_policy):
    narrow = load_policy(tiny_dir, "bfloat16").model
    ids = random_ids(shared_policy, 2, 8)
    mask = torch.ones_like(ids)
    got, _ = token_logprobs(narrow, ids, mask)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, token_logprobs(shared_policy.model, ids, mask)[0], atol=0.05, rtol=0)


def test_the_model_is_left_as_it_was(policy):
    ids = random_ids(policy, 1, 6)
    before = policy.model(ids).logits
    token_logprobs(policy.model, ids, torch.ones_like(ids))
    assert torch.equal(policy.model(ids).logits, before)
    assert "forward" not in policy.model.lm_head.__dict__


def test_an_error_in_the_model_leaves_it_as_it_was(policy):
    with pytest.raises(IndexError):
        token_logprobs(policy.model, torch.full((1, 4), 10**6), torch.ones(1, 4, dtype=torch.long))
    assert "forward" not in policy.model.lm_head.__dict__


def test_adapted_projection_goes_by_its_own_forward(policy):
    peft = pytest.importorskip("peft")
    ids = random_ids(policy, 2, 7)
    mask = torch.ones_like(ids)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(policy.model, settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(3))
    got = torch.stack(token_logprobs(model, ids, mask, logits_at_once=900))
    expected = torch.stack([torch.stack(plain(model, row, 1.0)) for row in ids], 1)
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=0)
    got.sum().backward()
    ours = gradients(model)
    expected.sum().backward()
    for name, grad in gradients(model).items():
        torch.testing.assert_close(ours[name], grad, atol=2e-5, rtol=1e-4)
    assert any("lm_head" in name for name in ours)


def test_unwrap_finds_the_model_inside(policy):
    assert unwrap(torch.nn.Sequential(policy.model)) is policy.model
    with pytest.raises(UnsupportedModelError, match="contains no transformers model"):
        unwrap(torch.nn.Linear(2, 2))


# What is refused -------------------------------------------------------------------------------------------------


def test_softcapped_logits_are_refused(policy):
    policy.model.config.final_logit_softcapping = 30.0
    ids = random_ids(policy, 1, 4)
    with pytest.raises(UnsupportedModelError, match=r"final_logit_softcapping=30\.0"):
        token_logprobs(policy.model, ids, torch.ones_like(ids))


def test_packing_a_recurrent_layer_is_refused(policy):
    policy.model.config.layer_types = ["full_attention", "linear_attention"]
    sequences = [random_ids(policy, 3), random_ids(policy, 4)]
    with pytest.raises(UnsupportedModelError, match="linear_attention"):
        token_logprobs(policy.model, *_packed_call(sequences))


@pytest.mark.parametrize("temperature", [-1.0, float("inf"), float("nan")])
def test_temperatures_that_are_none(shared_policy, temperature):
    ids = random_ids(shared_policy, 1, 4)
    with pytest.raises(UnsupportedModelError, match="temperature"):
        token_logprobs(shared_policy.model, ids, torch.ones_like(ids), temperature)


# Positions -------------------------------------------------------------------------------------------------------


@given(lengths=LENGTHS, left=st.integers(0, 3), right=st.integers(0, 3))
def test_starts_and_positions(lengths, left, right):
    positions = torch.tensor([0] * left + [i for n in lengths for i in range(n)] + [0] * right)[None]
    mask = torch.tensor([0] * left + [1] * sum(lengths) + [0] * right)[None]
    starts = sequence_starts(mask, positions)
    real = slice(left, left + sum(lengths))
    assert int(starts[0, real].sum()) == len(lengths)
    assert torch.equal(restarting_positions(starts)[0, real], positions[0, real])
    assert not starts[0, real.stop :].any()


VLLM = """
import os, sys
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")
import torch
from vllm import LLM, SamplingParams
from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
engine = LLM(sys.argv[1], dtype="float32", enforce_eager=True, distributed_executor_backend="uni",
             logprobs_mode="processed_logprobs", max_model_len=256, max_num_seqs=4)
policy = load_policy(sys.argv[1])
prompt = policy.chat.prompt_ids([{"role": "user", "content": "Write a kernel that adds."}])
worst = 0.0
for temperature in (0.0, 0.6, 1.0):
    sampling = SamplingParams(temperature=temperature, max_tokens=16, logprobs=0,
                              stop_token_ids=list(policy.chat.stop_token_ids))
    for output in engine.generate([{"prompt_token_ids": prompt}] * 4, sampling, use_tqdm=False):
        ids = list(output.outputs[0].token_ids)
        sampled = torch.tensor([step[i].logprob for step, i in zip(output.outputs[0].logprobs, ids)])
        row = torch.tensor([prompt + ids])
        with torch.no_grad():
            ours, _ = token_logprobs(policy.model, row, torch.ones_like(row), temperature)
        worst = max(worst, float((ours[0, len(prompt):] - sampled).abs().max()))
print("WORST", worst)
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("heads", [1, 2])
def test_the_samplers_own_logprobs(tmp_path: Path, heads):
    """vLLM loads the tiny model (heads 32 and 64 wide) and reports the same numbers as it samples."""
    pytest.importorskip("vllm", reason="needs vLLM")
    import subprocess
    import sys

    from warpsmith.policy.tiny import build_tiny

    path = build_tiny(tmp_path / "m", ["x = 1\n"], vocab_size=300, layers=2, hidden=64, heads=heads, kv_heads=1)
    done = subprocess.run(
        [sys.executable, "-c", VLLM, str(path)], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    worst = float(done.stdout.split("WORST")[1])
    assert worst < 1e-5
