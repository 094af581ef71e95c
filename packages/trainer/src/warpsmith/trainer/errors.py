"""Errors of a training run."""

from warpsmith.records.errors import UsageError, WarpsmithError


class ConfigError(UsageError):
    """A configuration file or an override is invalid."""


class UnfitRunError(UsageError):
    """Several checks before the run failed."""


class WandbError(UsageError):
    """W&B rejects the login, or its run cannot start."""


class TrackerError(UsageError):
    """A tracker of `[trackers]` cannot start, or its package is missing."""


class ContainmentError(UsageError):
    """The machine's containment of candidates is weaker than the configuration requires."""


class PromptsError(UsageError):
    """Some prompts are longer than the token budget."""


class DataError(UsageError):
    """Training data cannot be read, or has no examples to train on."""


class DataWriteError(WarpsmithError):
    """Encoded training data could not be written, for example because the disk is full."""

    exit_code = 1


class CheckpointError(UsageError):
    """A checkpoint is missing, damaged, or belongs to another run."""


class CheckpointWriteError(WarpsmithError):
    """A checkpoint could not be written, for example because the disk is full."""

    exit_code = 1


class CollectionError(WarpsmithError):
    """Every turn of a batch was lost; the next batch would probably be lost in the same way."""

    exit_code = 1


class LaunchError(WarpsmithError):
    """The launcher or a rank could not be started, or failed."""

    exit_code = 1


class ServiceError(UsageError):
    """A service of a detached run could not be started, found or read."""


class PortError(UsageError):
    """No TCP port is free for the process group, or the given one is in use."""


class SyncError(WarpsmithError):
    """New weights did not reach a sampler, or arrived damaged."""

    exit_code = 1


class SyncTimeoutError(SyncError):
    """A sync passed its deadline."""


class TransportError(SyncError):
    """Weights cannot reach the samplers in the way that was asked for."""

    exit_code = 2


class ProbeError(SyncError):
    """After a sync, a sampler's log-probabilities differ from the trainer's."""


class StalenessError(WarpsmithError):
    """A batch is older than `algorithm.max_staleness` allows."""

    exit_code = 1


class DivergenceError(WarpsmithError):
    """The loss or the gradient is not finite."""

    exit_code = 1


class StoppedError(WarpsmithError):
    """A signal stopped the run before it was done."""

    exit_code = 130
