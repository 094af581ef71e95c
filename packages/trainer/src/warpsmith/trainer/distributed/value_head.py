"""A value head on the policy's last hidden states."""

import torch
from torch import Tensor, nn

NAME = "value_head"


class ValueHead(nn.Module):
    """V = w h + b, in fp32 whatever the dtype of the weights; initially 0 everywhere.

    Args:
        width: width of the hidden states.
        dtype: dtype of the weights.
        detached: do not propagate the value's gradient into the policy.
    """

    def __init__(self, width: int, dtype: torch.dtype, *, detached: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, width, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(1, dtype=dtype))
        self.detached = detached

    def forward(self, hidden_NC: Tensor) -> Tensor:
        """Return the values of hidden states, (N, 1) in fp32."""
        states_NC = hidden_NC.detach() if self.detached else hidden_NC
        return nn.functional.linear(states_NC.float(), self.weight.float(), self.bias.float())


def attach(model: nn.Module, width: int, *, detached: bool) -> ValueHead:
    """Attach a value head; it is trained, partitioned and checkpointed with the model, and never sent or exported.

    Args:
        model: a causal language model.
        width: width of its hidden states.
        detached: do not propagate the value's gradient into the policy.
    """
    head = ValueHead(width, next(model.parameters()).dtype, detached=detached)
    model.add_module(NAME, head)
    return head


def belongs(name: str) -> bool:
    """Whether a parameter of this name belongs to the value head."""
    return name.startswith(f"{NAME}.")


def first_marked_value(value_BT: Tensor | None, mask_BT: Tensor) -> Tensor:
    """Return the value at each row's first marked token, (B, 1); 0 for a row without one.

    Raises:
        AssertionError: there are no values, because the model has no value head.
    """
    if value_BT is None:
        raise AssertionError("only a model with a value head has values")
    place_B1 = (mask_BT > 0).int().argmax(-1, keepdim=True)
    first_B1 = value_BT.gather(-1, place_B1)
    return torch.where(mask_BT.any(-1, keepdim=True), first_B1, torch.zeros_like(first_B1))
