"""Models by liger-kernel against transformers' own modules, under Triton's interpreter, as JSON on stdout.

Run with TRITON_INTERPRET=1, the directory of a tiny model, and the names of the cases.
"""

import json
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
import triton.language as tl
from liger_kernel.ops import rms_norm
from transformers import AutoConfig, AutoModelForCausalLM
from triton.runtime import interpreter

from warpsmith.policy import adapters
from warpsmith.policy.attention import register
from warpsmith.policy.config import LoraSettings, PolicyConfig
from warpsmith.policy.kernels import apply_liger
from warpsmith.policy.loading import Policy
from warpsmith.policy.logprobs import token_figures

LAYERS = 2
launches: Counter[str] = Counter()


def complete_the_interpreter() -> None:
    """Give it what it lacks of a compiler: numbers that are no integers as fp32 scalars, and libdevice's rsqrt."""
    converted, launched = interpreter._implicit_cvt, interpreter.GridExecutor.__call__

    def convert(argument):
        if not isinstance(argument, float):
            return converted(argument)
        return tl.tensor(interpreter.TensorHandle(np.array([argument], np.float32), tl.float32), tl.float32)

    def launch(self, *arguments, **settings):
        launches[self.fn.__name__] += 1
        return launched(self, *arguments, **settings)

    interpreter._implicit_cvt = convert
    interpreter.GridExecutor.__call__ = launch
    # Looked up while a kernel runs: the interpreter puts its own functions into `tl` for as long as that.
    rms_norm.rsqrt = lambda x: tl.rsqrt(x)  # noqa: PLW0108


def made(kind: str, attention: str, liger: bool, **settings: object) -> torch.nn.Module:
    config = AutoConfig.for_model(
        kind, vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, initializer_range=0.3, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    for name, parameter in model.named_parameters():
        # Not the ones and zeros that they begin with, which would hide a norm's weight or a bias left out.
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.2)
    if liger:
        apply_liger(model)
        assert "forward" not in vars(model)
    return model


def adapted(model: torch.nn.Module) -> torch.nn.Module:
    adapters.attach(SimpleNamespace(model=model), LoraSettings(rank=4))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def checkpointed(model: torch.nn.Module) -> torch.nn.Module:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def figures(model: torch.nn.Module, packed: bool = False, valued: bool = False) -> list[torch.Tensor]:
    """Log-probabilities (and values), and each gradient of a sum that weighs them differently."""
    ids = torch.randint(0, 300, (2, 9), generator=torch.Generator().manual_seed(2))
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 3, 4, 5, 6]]) if packed else None
    head = torch.nn.Linear(64, 1) if valued else None
    if head is not None:
        torch.nn.init.constant_(head.weight, 0.1)
    found = token_figures(model, ids, torch.ones_like(ids), position_ids_BT=positions, value_head=head)
    weight = torch.linspace(-1, 1, ids.numel()).view_as(ids)
    values = torch.zeros_like(weight) if found.value_BT is None else found.value_BT
    (found.logprobs_BT * weight + found.entropy_BT * weight.flip(0) + values * weight.flip(1)).sum().backward()
    trained = [*model.parameters(), *([] if head is None else head.parameters())]
    gradients = [each.grad for each in trained if each.requires_grad]
    return [torch.stack([found.logprobs_BT, values]).detach(), *gradients]


def compared(plain: list[torch.Tensor], fused: list[torch.Tensor]) -> dict[str, object]:
    gradients = [float((one - other).norm() / other.norm()) for one, other in zip(fused[1:], plain[1:], strict=True)]
    gap = {"figures": float((fused[0] - plain[0]).abs().max()), "gradients": max(gradients), "number": len(gradients)}
    return gap | {"launches": dict(launches)}


def case(kind, attention="sdpa", change=lambda model: model, packed=False, valued=False, **settings):
    plain = figures(change(made(kind, attention, False, **settings)), packed, valued)
    launches.clear()
    return compared(plain, figures(change(made(kind, attention, True, **settings)), packed, valued))


def loaded(directory: str) -> dict[str, object]:
    both = []
    for kernels in ("torch", "liger"):
        launches.clear()
        policy = Policy.from_config(PolicyConfig(path=directory, dtype="float32", kernels=kernels))
        both.append(figures(policy.model))
    return compared(*both)


def beside(kind: str) -> dict[str, object]:
    """A model as transformers has it, made while one by liger-kernel is there, against one made before."""
    before = figures(made(kind, "sdpa", False))
    held = made(kind, "sdpa", True)
    launches.clear()
    found = compared(before, figures(made(kind, "sdpa", False)))
    del held
    return found


ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
CASES = {
    **{kind: partial(case, kind) for kind in ("llama", "mistral", "qwen2", "qwen3")},
    "llama with biases": partial(case, "llama", attention_bias=True, mlp_bias=True),
    "qwen3 with scaled angles": partial(case, "qwen3", rope_parameters=ROPE),
    "packed under a mask": partial(case, "qwen3", packed=True),
    "packed with borders": partial(case, "qwen3", "varlen", packed=True),
    "checkpointed": partial(case, "qwen3", change=checkpointed),
    "adapted": partial(case, "qwen3", change=adapted),
    "adapted and checkpointed": partial(case, "llama", change=lambda model: checkpointed(adapted(model))),
    "valued": partial(case, "qwen3", valued=True),
    "loaded": partial(loaded, sys.argv[1]),
    "beside": partial(beside, "qwen3"),
}


def main() -> None:
    complete_the_interpreter()
    register()
    print(json.dumps({name: CASES[name]() for name in sys.argv[2:]}))


if __name__ == "__main__":
    main()
