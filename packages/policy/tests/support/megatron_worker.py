"""Runs Megatron-Core itself on a CPU: saves small models in its layouts, and loads what the package wrote.

    python megatron_worker.py save CASE.json   # {family, tied, tp, pp, out}: torch_dist, mp_rank, log-probabilities
    python megatron_worker.py load CASE.json   # the same keys; reads `out`/release, writes log-probabilities

Several cases run one after another. Megatron-Core must be importable.
"""

import hashlib
import json
import sys
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Megatron-Core asks for CUDA where it saves and where it ties embeddings, whatever the device of the tensors.
torch.Tensor.cuda = lambda self, *_, **__: self
torch.cuda.synchronize = lambda *_, **__: None
torch.cuda.current_device = lambda: torch.device("cpu")

from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core import parallel_state as ranks  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.tensor_parallel import get_cuda_rng_tracker  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.enums import AttnBackend  # noqa: E402

LAYERS, HIDDEN, FFN, HEADS, GROUPS = 4, 64, 96, 4, 2
VOCAB, PADDED, POSITIONS = 123, 128, 32
EPS, ROTARY_BASE = 1e-5, 20_000


def arguments(case: dict[str, Any]) -> Namespace:
    """What Megatron-LM's training would keep of its command line."""
    return Namespace(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        ffn_hidden_size=FFN,
        num_attention_heads=HEADS,
        group_query_attention=True,
        num_query_groups=GROUPS,
        kv_channels=head_dim(case),
        untie_embeddings_and_output_weights=not case["tied"],
        normalization="RMSNorm",
        norm_epsilon=EPS,
        swiglu=True,
        add_bias_linear=False,
        add_qkv_bias=case["family"] == "qwen2",
        qk_layernorm=case["family"] == "qwen3",
        position_embedding_type="rope",
        rotary_base=ROTARY_BASE,
        rotary_percent=1.0,
        max_position_embeddings=POSITIONS,
        seq_length=POSITIONS,
        vocab_size=VOCAB,
        padded_vocab_size=PADDED,
        params_dtype=torch.float32,
        attention_backend=AttnBackend.local,
        tensor_model_parallel_size=case["tp"],
        pipeline_model_parallel_size=case["pp"],
    )


def head_dim(case: dict[str, Any]) -> int:
    """Qwen3's heads need not add up to the hidden size."""
    return 32 if case["family"] == "qwen3" else HIDDEN // HEADS


def build(case: dict[str, Any], virtual: int | None = None) -> GPTModel:
    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        ffn_hidden_size=FFN,
        num_attention_heads=HEADS,
        num_query_groups=GROUPS,
        kv_channels=head_dim(case),
        normalization="RMSNorm",
        layernorm_epsilon=EPS,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=case["family"] == "qwen2",
        qk_layernorm=case["family"] == "qwen3",
        tensor_model_parallel_size=case["tp"],
        pipeline_model_parallel_size=case["pp"],
        virtual_pipeline_model_parallel_size=None if virtual is None else 2,
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_activation_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
    )
    first, last = ranks.is_pipeline_first_stage(), ranks.is_pipeline_last_stage()
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(qk_layernorm=case["family"] == "qwen3", normalization="RMSNorm"),
        vocab_size=PADDED,
        max_sequence_length=POSITIONS,
        pre_process=first and virtual in (None, 0),
        post_process=last and virtual in (None, 1),
        parallel_output=False,
        share_embeddings_and_output_weights=case["tied"],
        position_embedding_type="rope",
        rotary_base=ROTARY_BASE,
        vp_stage=virtual,
    )
    fill(model, case)
    return model.eval()


def fill(model: GPTModel, case: dict[str, Any]) -> None:
    """Give each weight values of its own, the same on all ranks that share it and at any place in the pipeline."""
    numbers = [layer.layer_number - 1 for layer in model.decoder.layers]
    for name, weight in model.named_parameters():
        parts = name.split(".")
        if name.startswith("decoder.layers."):
            parts[2] = str(numbers[int(parts[2])])
        if case["tied"] and name == "output_layer.weight":
            parts = ["embedding", "word_embeddings", "weight"]
        shard = ranks.get_tensor_model_parallel_rank() if getattr(weight, "tensor_model_parallel", False) else 0
        seed = hashlib.sha256(f"{'.'.join(parts)}/{shard}".encode()).digest()[:4]
        noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(int.from_bytes(seed)))
        with torch.no_grad():
            weight.copy_(1 + 0.3 * noise if "layernorm" in name else 0.15 * noise)


def ids() -> torch.Tensor:
    return torch.randint(0, VOCAB, (2, POSITIONS), generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def logprobs(model: GPTModel) -> torch.Tensor | None:
    """Megatron's own forward pass, from stage to stage; the log-probabilities over the tokens on the last one."""
    tokens = ids()
    stage, stages = ranks.get_pipeline_model_parallel_rank(), ranks.get_pipeline_model_parallel_world_size()
    if stage:
        received = torch.empty(POSITIONS, len(tokens), HIDDEN)
        dist.recv(received, src=ranks.get_pipeline_model_parallel_prev_rank())
        model.set_input_tensor(received)
    positions = torch.arange(POSITIONS).expand_as(tokens)
    hidden_later = torch.ones(POSITIONS, POSITIONS, dtype=torch.bool).triu(1)[None, None]
    out = model(tokens, positions, hidden_later)
    if stage < stages - 1:
        dist.send(out.contiguous(), dst=ranks.get_pipeline_model_parallel_next_rank())
        return None
    return out[..., :VOCAB].double().log_softmax(-1)


def save(case: dict[str, Any], model: GPTModel) -> None:
    out = Path(case["out"])
    for name, metadata in (("torch_dist", None), ("apart", {"singleton_local_shards": True})):
        directory = out / name / "iter_0000007"
        directory.mkdir(parents=True, exist_ok=True)
        given = None if metadata is None else {**metadata, "dp_cp_group": ranks.get_data_parallel_group(True)}
        state = {"model": model.sharded_state_dict(metadata=given), "args": arguments(case), "iteration": 7}
        dist.barrier()
        dist_checkpointing.save(state, str(directory))
        (out / name / "latest_checkpointed_iteration.txt").write_text("7")
    save_rank(case, {"model": model.state_dict_for_save_checkpoint()}, out / "mp_rank")
    if case["pp"] > 1:
        chunks = {f"model{i}": build(case, virtual=i).state_dict_for_save_checkpoint() for i in (0, 1)}
        save_rank(case, chunks, out / "interleaved")


def save_rank(case: dict[str, Any], models: dict[str, Any], out: Path) -> None:
    """As Megatron-LM saves with `--ckpt-format torch`."""
    stage = f"_{ranks.get_pipeline_model_parallel_rank():03d}" if case["pp"] > 1 else ""
    directory = out / "iter_0000007" / f"mp_rank_{ranks.get_tensor_model_parallel_rank():02d}{stage}"
    directory.mkdir(parents=True, exist_ok=True)
    state = {"args": arguments(case), "checkpoint_version": 3.0, "iteration": 7, **models}
    torch.save(state, directory / "model_optim_rng.pt")
    (out / "latest_checkpointed_iteration.txt").write_text("7")


def load(case: dict[str, Any], model: GPTModel) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    state = {"model": model.sharded_state_dict()}
    loaded = dist_checkpointing.load(state, str(Path(case["out"]) / "release"))
    model.load_state_dict(loaded["model"])


def work(rank: int, case: dict[str, Any], mode: str) -> None:
    torch.set_num_threads(1)
    world = case["tp"] * case["pp"]
    store = Path(case["out"]).with_suffix(f".{mode}.store")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    ranks.initialize_model_parallel(case["tp"], case["pp"])
    get_cuda_rng_tracker().fork = lambda *_: nullcontext()  # nothing is dropped, and there is no device
    model = build(case)
    (save if mode == "save" else load)(case, model)
    found = logprobs(model)
    if found is not None and ranks.get_tensor_model_parallel_rank() == 0:
        torch.save({"ids": ids(), "logprobs": found}, Path(case["out"]).with_suffix(f".{mode}.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    for file in sys.argv[2:]:
        one = json.loads(Path(file).read_text())
        Path(one["out"]).with_suffix(f".{sys.argv[1]}.store").unlink(missing_ok=True)
        torch.multiprocessing.start_processes(
            work, args=(one, sys.argv[1]), nprocs=one["tp"] * one["pp"], start_method="fork"
        )
        print("done", file, flush=True)
