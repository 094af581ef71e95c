"""What can go wrong in a training run, one class a cause."""

from warpsmith.records.errors import UsageError, WarpsmithError


class ConfigError(UsageError):
    """A configuration file or an override that cannot be used."""


class UnfitRunError(UsageError):
    """Several things that keep a run from going well, found before it starts."""


class WandbError(UsageError):
    """A login to W&B that is refused, or a run of it that cannot begin."""


class ContainmentError(UsageError):
    """A machine that contains candidates more weakly than the configuration accepts."""


class PromptsError(UsageError):
    """Problems whose prompts are longer than the token budget."""


class DataError(UsageError):
    """Training data that cannot be read, or that holds nothing to train on."""


class DataWriteError(WarpsmithError):
    """Encoded training data that could not be written: a full disk, a directory that takes no files."""

    exit_code = 1


class CheckpointError(UsageError):
    """A checkpoint that is missing, incomplete, or of another run."""


class CheckpointWriteError(WarpsmithError):
    """A checkpoint that could not be written: a full disk, a directory that takes no files."""

    exit_code = 1


class CollectionError(WarpsmithError):
    """A batch of which every turn was lost: nothing to train on, and the next would be lost the same way."""

    exit_code = 1


class LaunchError(WarpsmithError):
    """The launcher or its processes could not be started, or ended badly."""

    exit_code = 1


class PortError(UsageError):
    """No TCP port for the process group, or the one that was named is taken."""


class SyncError(WarpsmithError):
    """New weights did not reach an engine, or reached it wrongly."""

    exit_code = 1


class SyncTimeoutError(SyncError):
    """A sync passed its deadline."""


class ProbeError(SyncError):
    """The engine's log-probabilities are not the trainer's after a sync."""


class StalenessError(WarpsmithError):
    """A batch that is older than `algorithm.max_staleness` permits."""

    exit_code = 1


class DivergenceError(WarpsmithError):
    """The loss or the gradient is no finite number."""

    exit_code = 1


class StoppedError(WarpsmithError):
    """The run was asked to stop by a signal before it was done."""

    exit_code = 130
