"""Typed errors of the rollout package, one a cause."""

from warpsmith.records.errors import UsageError, WarpsmithError


class RolloutError(WarpsmithError):
    """Root of the errors of this package."""


class BadRewardError(RolloutError, UsageError):
    """A reward that cannot be loaded or called, or that returns no number for an example."""


class RewardFailedError(RolloutError):
    """A reward that raised, or returned no finite number, for a turn of a run; the run ends."""

    exit_code = 1


class ModelTooShortError(RolloutError, UsageError):
    """A model whose context is shorter than `sampler.max_model_len`."""


class RayTokenError(RolloutError, UsageError):
    """Ray's token authentication is on, and there is no usable token."""


class DatasetError(RolloutError, UsageError):
    """A file of problems that is missing or malformed."""


class PromptTooLongError(RolloutError):
    """A problem whose prompt does not fit the token budget even without any history."""


class SamplerError(RolloutError):
    """A sampler refused a request or failed."""


class SamplerDiedError(SamplerError):
    """The sampler's process or thread is gone."""


class WeightsUnknownError(SamplerError):
    """A sampler whose last update was not answered: which weights it holds is not known."""


class ActorLostError(RolloutError):
    """A Ray actor died, or cannot be reached."""


class ActorFailedError(RolloutError):
    """A Ray actor raised another error than a WarpsmithError."""


class DeadlinePassedError(RolloutError):
    """A wait reached its deadline; the message names what was awaited."""


class BadPayloadError(RolloutError):
    """Weights that are incomplete, damaged, or not of the model that is to receive them."""
