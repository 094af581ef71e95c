"""Typed errors of the policy package, one a cause."""

from warpsmith.records.errors import UsageError, WarpsmithError


class PolicyError(WarpsmithError):
    """Root of the errors of this package."""


class PackagesError(PolicyError, UsageError):
    """An installed package that breaks others which a model needs."""


class CheckpointError(PolicyError):
    """A Hugging Face directory that is missing, incomplete, damaged, or does not fit its own configuration."""


class TokenizerError(PolicyError):
    """A tokenizer that is missing or cannot give character offsets."""


class TemplateError(PolicyError):
    """A chat template that is missing, fails, or hides where an assistant's turn begins and ends."""


class MessagesError(PolicyError):
    """A conversation that is not a list of role and content."""


class UnsupportedModelError(PolicyError):
    """A model whose output layer or attention the log-prob code would compute wrongly."""


class AdapterError(PolicyError):
    """An adapter that cannot be attached or merged."""


class AlreadyMergedError(AdapterError):
    """An adapter that was merged into this model before."""


class BaseMismatchError(AdapterError):
    """An adapter trained on other base weights than the ones it is to be merged into."""


class QuantizationError(PolicyError):
    """Weights that cannot be kept in 4 bits here: no bitsandbytes, or no NVIDIA GPU."""


class KernelsError(PolicyError):
    """Fused kernels that cannot be had here: no liger-kernel, no GPU, or a model that they are not for."""


class FetchError(PolicyError):
    """A published model that could not be downloaded or converted."""
