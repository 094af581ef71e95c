# problem: row_sum
# Sums are added to the output, which the decorator clears; a configuration has a hook, and one is pruned.
import torch
import torch.nn as nn
import triton
import triton.language as tl


def noted(arguments):
    assert arguments["BLOCK"] == 128


def fitting(configs, arguments, **_):
    return [config for config in configs if config.kwargs["BLOCK"] <= arguments["columns"]]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=2),
        triton.Config({"BLOCK": 128}, num_warps=4, pre_hook=noted),
        triton.Config({"BLOCK": 8192}),
    ],
    key=["columns"],
    reset_to_zero=["out_ptr"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.zeros(rows, device=x.device)
        sum_kernel[lambda meta: (rows, triton.cdiv(columns, meta["BLOCK"]))](x, out, columns)
        return out
