"""Typed errors of the rollout package, one per cause."""

from warpsmith.records.errors import UsageError, WarpsmithError


class RolloutError(WarpsmithError):
    """Root of the errors of this package."""


class BadRewardError(RolloutError, UsageError):
    """A reward cannot be loaded or called, or does not return a number for an example."""


class RewardFailedError(RolloutError):
    """A reward raised, or did not return a finite number, for a turn of a run; the run ends."""

    exit_code = 1


class ModelTooShortError(RolloutError, UsageError):
    """A model's context is shorter than `sampler.max_model_len`."""


class RayTokenError(RolloutError, UsageError):
    """Ray's token authentication is on, but there is no usable token."""


class DatasetError(RolloutError, UsageError):
    """A file of problems is missing or malformed."""


class PromptTooLongError(RolloutError):
    """A problem's prompt does not fit the token budget even without history."""


class StartLostError(RolloutError):
    """The kernel that an optimizer starts from could not be evaluated."""


class SamplerError(RolloutError):
    """A sampler refused a request or failed."""


class SamplerDiedError(SamplerError):
    """The sampler's process or thread is gone."""


class WeightsUnknownError(SamplerError):
    """A sampler's last update was not answered: it is not known which weights it has."""


class ActorLostError(RolloutError):
    """A Ray actor died, or cannot be reached."""


class ActorFailedError(RolloutError):
    """A Ray actor raised an error that is not a WarpsmithError."""


class DeadlinePassedError(RolloutError):
    """A wait reached its deadline; the message names what was awaited."""


class BadPayloadError(RolloutError):
    """Weights are incomplete, damaged, or not of the receiving model."""


class DeviceTransferError(RolloutError):
    """Weights cannot go from the trainer's memory to a sampler's directly."""
