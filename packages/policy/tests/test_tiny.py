"""The small model: its tokenizer's rules, its sizes, and that a seed gives the same bytes."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.policy.config import TinySettings
from warpsmith.policy.errors import CheckpointError, PolicyError
from warpsmith.policy.loading import load_policy
from warpsmith.policy.tiny import build_tiny, train_tokenizer

SMALL = {"vocab_size": 320, "layers": 1, "hidden": 64, "heads": 2, "kv_heads": 1}
TEXTS = ["def f(x):\n    return x + 1\n"] * 3


def digests(directory: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in directory.iterdir()}


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    one, two, other = (
        build_tiny(tmp_path / name, iter(TEXTS), **SMALL, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert digests(one) == digests(two)
    assert digests(one)["model.safetensors"] != digests(other)["model.safetensors"]
    assert digests(one)["tokenizer.json"] == digests(other)["tokenizer.json"]


@given(text=st.text())
def test_every_text_comes_back(shared_policy, text):
    chat = shared_policy.chat
    assert chat.tokenizer.decode(chat.encode(text)) == text


@given(text=st.text(alphabet="def f(x):\n return+1", max_size=60))
def test_tokens_hold_a_newline_alone(shared_policy, text):
    tokens = [shared_policy.chat.token(i) for i in shared_policy.chat.encode(text)]
    assert "".join(tokens) == text
    assert all(token == "\n" for token in tokens if "\n" in token)


def test_tokens_reach_over_spaces(shared_policy):
    chat = shared_policy.chat
    line = "    mask = offsets < n"
    assert [chat.token(i) for i in chat.encode(line)] == [line]


def test_sizes_and_ends(tiny_dir):
    policy = load_policy(tiny_dir)
    config = policy.model.config
    assert (config.num_hidden_layers, config.hidden_size, config.head_dim) == (2, 64, 32)
    assert config.tie_word_embeddings
    assert policy.model.lm_head.weight is policy.model.model.embed_tokens.weight
    assert config.vocab_size == len(policy.tokenizer) == 400
    assert policy.tokenizer.eos_token == "<|im_end|>"
    assert policy.tokenizer.pad_token == "<|endoftext|>"
    assert policy.model.generation_config.eos_token_id == policy.chat.stop_token_ids[0]


def test_a_small_corpus_makes_a_small_vocabulary():
    tokenizer = train_tokenizer(["x"], TinySettings(vocab_size=4096))
    assert 259 <= len(tokenizer) < 300


def test_it_learns(policy):
    """A few steps lower the loss on one text: gradients reach the weights."""
    import torch

    from warpsmith.policy.logprobs import token_logprobs

    ids = torch.tensor([policy.chat.encode("def add(x, y, out, n):\n    mask = offsets < n\n")])
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        loss = -token_logprobs(policy.model, ids, torch.ones_like(ids))[0].mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"heads": 3}, "hidden / heads"),
        ({"hidden": 48, "heads": 2}, "it must be one of 32"),
        ({"kv_heads": 3}, "multiple of kv_heads"),
        ({"layers": 0}, "layers"),
        ({"vocab_size": 100}, "vocab_size"),
    ],
)
def test_sizes_that_do_not_fit(tmp_path, changes, cause):
    with pytest.raises(PolicyError, match=cause):
        build_tiny(tmp_path / "m", TEXTS, **{**SMALL, **changes})
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("corpus", [[], ["", " \n"], "one string"])
def test_a_corpus_without_texts(tmp_path, corpus):
    with pytest.raises(PolicyError, match="corpus"):
        build_tiny(tmp_path / "m", corpus, **SMALL)
    assert not list(tmp_path.iterdir())


def test_a_directory_in_use_is_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(CheckpointError, match="already exists"):
        build_tiny(tmp_path, TEXTS, **SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["note"]
