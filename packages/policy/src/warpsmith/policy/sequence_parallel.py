"""One row on several ranks: each has a part of its tokens, and in attention a part of the heads of all tokens.

This is DeepSpeed-Ulysses (arXiv 2309.14509): an all-to-all before attention exchanges tokens for heads, and one after
it heads for tokens. So attention sees whole sequences, whose borders need not be those of the parts.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Split:
    """The ranks that share a row.

    Attributes:
        group: their process group; its backend supports the device of the model.
        size: their number S, at least 2.
        index: the place of this rank, and so of its part of the tokens.
    """

    group: Any
    size: int
    index: int

    def __reduce__(self) -> tuple[Any, ...]:
        """A process group belongs to its process; a copy elsewhere only says which part this is."""
        return Split, (None, self.size, self.index)

    def pad(self, values_BT: Tensor) -> Tensor:
        """Return a row with zeros on the right, so that its length is a multiple of S."""
        return nn.functional.pad(values_BT, (0, -values_BT.shape[1] % self.size))

    def part(self, values_BT: Tensor) -> Tensor:
        """Return this rank's part of a row whose length is a multiple of S."""
        return values_BT.chunk(self.size, dim=1)[self.index]

    def whole(self, part_BPF: Tensor) -> Tensor:
        """Return the whole row of figures (B, S P, F) on every rank of the group; collective.

        Each rank derives the same loss from it, so the backward pass gives each rank the gradient of its own part, and
        the sum over the ranks is the gradient of that loss, once.
        """
        found: Tensor = _Gather.apply(part_BPF, self)  # type: ignore[no-untyped-call]
        return found

    def heads_of_all(self, states_BHPD: Tensor) -> Tensor:
        """Exchange tokens for heads: (B, H, P, D) of this rank's tokens to (B, H / S, S P, D) of all; collective.

        H is a multiple of S, or S one of H, as with shared key heads: each head is then repeated.
        """
        repeated = states_BHPD.repeat_interleave(max(1, self.size // states_BHPD.shape[1]), dim=1)
        batch, heads, tokens, width = repeated.shape
        by_rank = repeated.reshape(batch, self.size, heads // self.size, tokens, width).permute(1, 0, 2, 3, 4)
        # Received: [token part, B, H / S, P, D].
        parts = _exchange(by_rank, self)
        return parts.permute(1, 2, 0, 3, 4).reshape(batch, heads // self.size, self.size * tokens, width)

    def tokens_of_all_heads(self, states_BTHD: Tensor) -> Tensor:
        """Exchange heads for tokens: (B, S P, H / S, D) of all tokens to (B, P, H, D) of this rank's; collective."""
        batch, tokens, heads, width = states_BTHD.shape
        by_rank = states_BTHD.reshape(batch, self.size, tokens // self.size, heads, width).transpose(0, 1)
        # Received: [head part, B, P, H / S, D].
        parts = _exchange(by_rank, self)
        return parts.permute(1, 2, 0, 3, 4).reshape(batch, tokens // self.size, self.size * heads, width)


def _exchange(by_rank: Tensor, split: Split) -> Tensor:
    found: Tensor = _AllToAll.apply(by_rank, split)  # type: ignore[no-untyped-call]
    return found


def _sent(by_rank: Tensor, split: Split) -> Tensor:
    """Send entry r of the first dimension to rank r; entry r of the result came from rank r."""
    sent = by_rank.contiguous()
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=split.group)
    return received


class _AllToAll(torch.autograd.Function):
    """What was received from rank r is a function of what rank r sent: the gradient goes back the same way."""

    @staticmethod
    def forward(ctx: Any, by_rank: Tensor, split: Split) -> Tensor:
        ctx.split = split
        return _sent(by_rank, split)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _sent(grad, ctx.split), None


class _Gather(torch.autograd.Function):
    """Parts of a row to the row, on every rank; the gradient is the own part's alone, see `Split.whole`."""

    @staticmethod
    def forward(ctx: Any, part_BPF: Tensor, split: Split) -> Tensor:
        ctx.split = split
        parts = [torch.empty_like(part_BPF) for _ in range(split.size)]
        dist.all_gather(parts, part_BPF.contiguous(), group=split.group)
        return torch.cat(parts, dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BTF: Tensor) -> tuple[Tensor, None]:
        return ctx.split.part(grad_BTF).contiguous(), None
