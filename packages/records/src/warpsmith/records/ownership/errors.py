"""Errors of owning a run directory."""

from warpsmith.records.errors import UsageError, WarpsmithError


class RunInUseError(UsageError):
    """Another process owns the run directory."""


class OwnershipLostError(WarpsmithError):
    """The lock of the run directory was removed or taken over; its former owner must stop writing."""

    exit_code = 1
