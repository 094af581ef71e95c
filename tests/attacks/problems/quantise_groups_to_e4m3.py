import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        groups = x.view(x.shape[0], -1, 32)
        scale = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
        codes = (groups / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
        return codes.view(x.shape), scale


def get_inputs():
    return [torch.randn(24, 128)]


def get_init_inputs():
    return []
