"""Adapters: attached without effect, trained, saved, merged once and into the right weights."""

import json

import pytest
import torch

from warpsmith.policy import adapters, lowrank
from warpsmith.policy.config import LoraSettings
from warpsmith.policy.errors import AdapterError, AlreadyMergedError, BaseMismatchError, CheckpointError
from warpsmith.policy.loading import load_policy

SETTINGS = LoraSettings(rank=4, alpha=8.0)


def output(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(3, 23)[None], use_cache=False).logits


def trained(policy, *, seed: int = 0):
    """Adapters with random second factors, as after training."""
    model = adapters.attach(policy, SETTINGS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1, generator=generator)
    return model


@pytest.fixture
def adapter(policy, tiny_dir, tmp_path):
    """A saved adapter and the output of its model."""
    model = trained(policy)
    return adapters.save_adapter(model, tmp_path / "adapter", base=tiny_dir), output(model)


def test_attaching_changes_no_output_and_frees_few_weights(policy):
    before = output(policy.model)
    model = adapters.attach(policy, SETTINGS)
    assert torch.equal(output(model), before)
    free = {name for name, p in model.named_parameters() if p.requires_grad}
    assert free
    assert all("lora_" in name for name in free)


def test_the_same_seed_gives_the_same_adapter(tiny_dir):
    states = [
        {n: p for n, p in adapters.attach(load_policy(tiny_dir), SETTINGS, seed=s).named_parameters() if "lora_A" in n}
        for s in (1, 1, 2)
    ]
    name = next(iter(states[0]))
    assert torch.equal(states[0][name], states[1][name])
    assert not torch.equal(states[0][name], states[2][name])


def test_merging_gives_the_adapted_model(adapter, tiny_dir, tmp_path, shared_policy):
    path, expected = adapter
    merged = load_policy(adapters.merge_adapter(tiny_dir, path, tmp_path / "merged"))
    torch.testing.assert_close(output(merged.model), expected, atol=1e-5, rtol=1e-4)
    assert (output(merged.model) - output(shared_policy.model)).abs().max() > 1e-2
    assert merged.chat.stop_token_ids == shared_policy.chat.stop_token_ids


def test_merging_twice_is_refused(adapter, tiny_dir, tmp_path):
    merged = adapters.merge_adapter(tiny_dir, adapter[0], tmp_path / "merged")
    with pytest.raises(AlreadyMergedError, match=r"is already merged into"):
        adapters.merge_adapter(merged, adapter[0], tmp_path / "twice")
    (merged / adapters.MERGED).unlink()
    with pytest.raises(BaseMismatchError, match="not trained on"):
        adapters.merge_adapter(merged, adapter[0], tmp_path / "twice")
    assert not (tmp_path / "twice").exists()


def test_a_second_adapter_on_the_merged_model(adapter, tiny_dir, tmp_path):
    merged = adapters.merge_adapter(tiny_dir, adapter[0], tmp_path / "merged")
    second = trained(load_policy(merged), seed=5)
    expected = output(second)
    path = adapters.save_adapter(second, tmp_path / "second", base=merged)
    final = adapters.merge_adapter(merged, path, tmp_path / "final")
    torch.testing.assert_close(output(load_policy(final).model), expected, atol=1e-5, rtol=1e-4)
    assert len(json.loads((final / adapters.MERGED).read_text())["adapters"]) == 2
    with pytest.raises(AlreadyMergedError):
        adapters.merge_adapter(final, adapter[0], tmp_path / "again")


def test_merging_in_another_type(adapter, tiny_dir, tmp_path):
    merged = adapters.merge_adapter(tiny_dir, adapter[0], tmp_path / "merged", dtype="bfloat16")
    assert json.loads((merged / "config.json").read_text())["dtype"] == "bfloat16"


def test_fingerprint_sees_a_weight_and_no_type(policy, tiny_dir, tmp_path):
    narrow = load_policy(tiny_dir, "bfloat16").save(tmp_path / "narrow")
    assert adapters.fingerprint(narrow) == adapters.fingerprint(tiny_dir)
    with torch.no_grad():
        policy.model.model.norm.weight[3] += 0.5
    assert adapters.fingerprint(policy.save(tmp_path / "other")) != adapters.fingerprint(tiny_dir)


def test_layers_that_are_not_there(policy):
    with pytest.raises(AdapterError, match="No adapter fits"):
        adapters.attach(policy, LoraSettings(target_modules=("nothing",)))


def test_what_is_no_adapter(tiny_dir, tmp_path):
    with pytest.raises(AdapterError, match="not an adapter"):
        adapters.merge_adapter(tiny_dir, tiny_dir, tmp_path / "out")
    with pytest.raises(CheckpointError, match="does not exist"):
        adapters.merge_adapter(tmp_path / "none", tiny_dir, tmp_path / "out")


@pytest.mark.parametrize("name", ["lm_head", "embed_tokens"])
def test_layers_that_can_have_no_adapter(policy, name):
    with pytest.raises(AdapterError, match=f"{name} is an embedding, the output layer, or not a linear layer"):
        adapters.attach(policy, LoraSettings(target_modules=("q_proj", name)))


def test_a_model_without_its_adapters_is_its_base_and_has_them_again_afterwards(policy, shared_policy):
    model = trained(policy)
    adapted = output(model)
    with lowrank.disabled(policy.model):
        assert torch.equal(output(policy.model), output(shared_policy.model))
    assert torch.equal(output(policy.model), adapted)
    assert {name for name, p in policy.model.named_parameters() if p.requires_grad} == {
        name for name, _ in policy.model.named_parameters() if lowrank.is_factor(name)
    }


def test_factors_have_the_names_of_peft(policy, tmp_path, tiny_dir):
    from safetensors.torch import load_file

    path = adapters.save_adapter(trained(policy), tmp_path / "adapter", base=tiny_dir)
    named = {name: value for name, value in policy.model.named_parameters() if lowrank.is_factor(name)}
    stored = load_file(path / adapters.WEIGHTS)
    assert {lowrank.file_name(name) for name in named} == stored.keys()


def test_gathered_factors_make_the_same_files(policy, tmp_path, tiny_dir, shared_policy):
    model = trained(policy)
    factors = {lowrank.file_name(n): p.detach() for n, p in policy.model.named_parameters() if lowrank.is_factor(n)}
    path = adapters.write_adapter(factors, SETTINGS, tmp_path / "adapter", base=tiny_dir)
    merged = load_policy(adapters.merge_adapter(tiny_dir, path, tmp_path / "merged"))
    torch.testing.assert_close(output(merged.model), output(model), atol=1e-5, rtol=1e-4)
    sums = {name: lowrank.merged_weight(layer) for name, layer in lowrank.layers(policy.model).items()}
    weights = merged.model.state_dict()
    for name, weight in sums.items():
        torch.testing.assert_close(weights[f"{name}.weight"], weight)
    written = adapters.write_merged(policy, weights, factors, tmp_path / "written")
    assert torch.equal(output(load_policy(written).model), output(merged.model))
    with pytest.raises(AlreadyMergedError):
        adapters.merge_adapter(written, path, tmp_path / "twice")
