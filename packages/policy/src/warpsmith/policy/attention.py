"""Variable-length attention, which takes sequence starts and needs no mask: `attention = "varlen"`.

The mask of a packed row grows with the square of its length and is mostly zeros. Here the attention gets the sequence
boundaries instead. On a GPU it is torch's own variable-length flash attention (`torch.nn.attention.varlen`), so only
torch is needed; elsewhere the sequences are processed one by one.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor, nn

from warpsmith.policy.errors import UnsupportedModelError

if TYPE_CHECKING:
    from warpsmith.policy.sequence_parallel import Split

VARLEN: Final = "varlen"
FLASH_DTYPES: Final = (torch.bfloat16, torch.float16)


@cache
def register() -> None:
    """Register `varlen` with transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(VARLEN, attend)
    AttentionMaskInterface.register(VARLEN, _no_mask)


def _no_mask(*_: Any, attention_mask: Tensor | None = None, **__: Any) -> None:
    """Create no mask; reject padding, which only a mask could hide."""
    if attention_mask is not None and not bool(attention_mask.all()):
        raise UnsupportedModelError(
            "`varlen` attention got rows with padding, which it cannot distinguish from tokens.",
            'Compute log-probabilities with `token_logprobs`, or set policy.attention = "sdpa".',
        )


def borders(starts_BT: Tensor) -> dict[str, Any]:
    """Return what a forward pass passes on to the attention, under transformers' names.

    Args:
        starts_BT: True where a sequence starts; rows are concatenated, and each row starts a sequence.
    """
    starts_N = starts_BT.reshape(-1).nonzero().squeeze(1)
    ends_S = nn.functional.pad(starts_N, (0, 1), value=starts_BT.numel()).to(torch.int32)
    longest = int(ends_S.diff().max())
    return {"cu_seq_lens_q": ends_S, "cu_seq_lens_k": ends_S, "max_length_q": longest, "max_length_k": longest}


def attend(
    module: nn.Module,
    query_BHTD: Tensor,
    key_BGTD: Tensor,
    value_BGTD: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    split: "Split | None" = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each sequence, with transformers' interface.

    Args:
        query_BHTD: queries of H heads; keys and values may have fewer, G, each shared by H / G query heads.
        cu_seq_lens_q: starts of the sequences among the B T positions, then B T; without it each row is a sequence.
            With `split` the positions are those of the whole row.
        split: the ranks that share the row, in which case the arguments hold this rank's part; None if it is whole.
        sliding_window: how many positions a token sees, including itself; None for all.

    Returns:
        `output_BTHD`, and None for the weights.

    Raises:
        UnsupportedModelError: a mask, a cache or dropout was passed, which it does not support.
    """
    rows, heads, length, width = query_BHTD.shape
    if attention_mask is not None or dropout or key_BGTD.shape[2] != length:
        raise UnsupportedModelError(
            f"{type(module).__name__} passed a mask, dropout or a cache to `varlen` attention: unsupported.",
            'Set policy.attention = "sdpa".',
        )
    if split is not None:
        query_BHTD, key_BGTD, value_BGTD = (split.heads_of_all(each) for each in (query_BHTD, key_BGTD, value_BGTD))
        rows, heads, length, width = query_BHTD.shape
    if cu_seq_lens_q is None or max_length_q is None:
        cu_seq_lens_q = torch.arange(0, rows * length + 1, length, dtype=torch.int32, device=query_BHTD.device)
        max_length_q = length
    flat = [_flat(each, heads) for each in (query_BHTD, key_BGTD, value_BGTD)]
    scaling = width**-0.5 if scaling is None else scaling
    if query_BHTD.is_cuda:
        output_NHD = _flash(flat, cu_seq_lens_q, max_length_q, scaling, sliding_window)
    else:
        output_NHD = _one_by_one(flat, cu_seq_lens_q, scaling, sliding_window)
    output_BTHD = output_NHD.reshape(rows, length, heads, -1)
    return (output_BTHD if split is None else split.tokens_of_all_heads(output_BTHD)), None


def _flat(states_BGTD: Tensor, heads: int) -> Tensor:
    """Return [B T, H, D]: rows concatenated, and each key head repeated for the queries that share it."""
    shared = heads // states_BGTD.shape[1]
    states_NGD = states_BGTD.transpose(1, 2).flatten(0, 1)
    return states_NGD if shared == 1 else states_NGD.repeat_interleave(shared, dim=1)


def _flash(flat: list[Tensor], ends_S: Tensor, longest: int, scaling: float, window: int | None) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    if flat[0].dtype not in FLASH_DTYPES:
        raise UnsupportedModelError(
            f"`varlen` attention on a GPU supports bfloat16 and float16; the model is in {flat[0].dtype}.",
            'Set policy.dtype = "bfloat16", or policy.attention = "sdpa".',
        )
    seen = -1 if window is None else window - 1
    query, key, value = (each.contiguous() for each in flat)
    found = varlen_attn(query, key, value, ends_S, ends_S, longest, longest, scale=scaling, window_size=(seen, 0))
    return cast(Tensor, found)


def _one_by_one(flat: list[Tensor], ends_S: Tensor, scaling: float, window: int | None) -> Tensor:
    lengths = ends_S.diff().tolist()
    parts = zip(*(torch.split(each.transpose(0, 1), lengths, dim=1) for each in flat), strict=True)
    done = [_causal(query, key, value, scaling, window) for query, key, value in parts]
    return torch.cat(done, dim=1).transpose(0, 1)


def _causal(query_HSD: Tensor, key_HSD: Tensor, value_HSD: Tensor, scaling: float, window: int | None) -> Tensor:
    length = query_HSD.shape[1]
    near = None
    if window is not None and window < length:
        near = torch.ones(length, length, dtype=torch.bool, device=query_HSD.device).tril().triu(1 - window)
    return nn.functional.scaled_dot_product_attention(
        query_HSD[None], key_HSD[None], value_HSD[None], attn_mask=near, is_causal=near is None, scale=scaling
    )[0]
