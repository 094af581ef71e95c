"""Typed errors of the policy package, one per cause."""

from warpsmith.records.errors import UsageError, WarpsmithError


class PolicyError(WarpsmithError):
    """Root of the errors of this package."""


class PackagesError(PolicyError, UsageError):
    """An installed package breaks others that a model needs."""


class CheckpointError(PolicyError):
    """A Hugging Face directory is missing, incomplete, damaged, or does not fit its own configuration."""


class TokenizerError(PolicyError):
    """A tokenizer is missing or has no character offsets."""


class TemplateError(PolicyError):
    """A chat template is missing, fails, or hides where an assistant's turn starts and ends."""


class MessagesError(PolicyError):
    """A conversation is not a list of messages with role and content."""


class UnsupportedModelError(PolicyError):
    """The log-prob code does not support a model's output layer or attention."""


class AdapterError(PolicyError):
    """An adapter cannot be attached or merged."""


class AlreadyMergedError(AdapterError):
    """The adapter was already merged into this model."""


class BaseMismatchError(AdapterError):
    """An adapter was trained on other base weights than those it should be merged into."""


class QuantizationError(PolicyError):
    """4-bit weights are not available here: no bitsandbytes, or no NVIDIA GPU."""


class KernelsError(PolicyError):
    """Fused kernels are not available: no liger-kernel, no GPU, or an unsupported model."""


class FetchError(PolicyError):
    """A published model could not be downloaded or converted."""


class ConversionError(PolicyError):
    """A checkpoint cannot be converted: its architecture is not supported, or its weights do not match it."""
