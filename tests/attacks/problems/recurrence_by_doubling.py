import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def doubled(self, keep, state, apart):
        if apart >= state.shape[-1]:
            return state
        before = F.pad(state, (apart, 0))[..., : state.shape[-1]]
        kept = F.pad(keep, (apart, 0), value=1.0)[..., : state.shape[-1]]
        return self.doubled(keep * kept, state + keep * before, 2 * apart)

    def forward(self, x, gate):
        return self.doubled(torch.sigmoid(gate), x, 1)


def get_inputs():
    return [torch.randn(4, 5, 128), torch.randn(4, 5, 128)]


def get_init_inputs():
    return []
