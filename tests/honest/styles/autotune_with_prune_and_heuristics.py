import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=-1) / x.shape[-1]


def get_inputs():
    return [torch.randn(40, 100)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


def prune(configs, named_args, **kwargs):
    kept = [c for c in configs if c.kwargs["BLOCK"] <= triton.next_power_of_2(named_args["N"])]
    return kept or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 64, 1024) for w in (1, 4)],
    key=["N"],
    prune_configs_by={"early_config_prune": prune},
)
@triton.heuristics({"LOOP": lambda a: a["N"] > a["BLOCK"]})
@triton.jit
def row_mean(x_ptr, y_ptr, N, BLOCK: tl.constexpr, LOOP: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    if LOOP:
        for s in range(BLOCK, N, BLOCK):
            acc += tl.load(x_ptr + row * N + s + i, mask=s + i < N, other=0.0)
    tl.store(y_ptr + row, tl.sum(acc, 0) / N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        row_mean[(x.shape[0],)](x, y, x.shape[1])
        return y
