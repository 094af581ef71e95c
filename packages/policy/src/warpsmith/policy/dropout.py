"""Switches off a model's own dropout: a policy must compute the same in training and in sampling."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def switch_off(model: "nn.Module") -> int:
    """Set every dropout probability in a model to 0, in place; its configuration is unchanged.

    Covers layers such as `nn.Dropout` and numbers that a module passes to a function, such as `attention_dropout` in
    transformers' attention.

    Returns:
        The number of probabilities that were above 0.
    """
    found = 0
    for module in model.modules():
        kind = type(module).__name__.lower()
        for name, value in list(vars(module).items()):
            is_probability = "dropout" in name or (name == "p" and "dropout" in kind)
            if is_probability and isinstance(value, float) and value > 0:
                setattr(module, name, 0.0)
                found += 1
    return found
