import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, tokens, logits):
        L = tokens.shape[1]
        out = logits.clone()
        for i in range(L - 2):
            hit = (tokens[:, i] == tokens[:, -2]) & (tokens[:, i + 1] == tokens[:, -1])
            nxt = tokens[:, i + 2]
            cur = out.gather(1, nxt[:, None])[:, 0]
            out = out.scatter(1, nxt[:, None], torch.where(hit, torch.full_like(cur, float("-inf")), cur)[:, None])
        return out


def get_inputs():
    return [torch.randint(0, 40, (8, 24)), torch.randn(8, 40)]


def get_init_inputs():
    return []
