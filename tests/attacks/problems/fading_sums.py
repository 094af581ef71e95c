import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, gate):
        faded = torch.cumsum(F.softplus(gate), 1)
        weights = torch.exp(faded[:, None] - faded[:, :, None])
        seen = torch.ones(x.shape[1], x.shape[1], device=x.device).tril()
        return torch.einsum("bts,bs->bt", torch.where(seen > 0, weights.clamp(max=1.0), 0.0), x)


def get_inputs():
    return [torch.randn(6, 112), torch.randn(6, 112)]


def get_init_inputs():
    return []
