"""ReportError, in a module that everything in this package may import."""

from warpsmith.records.errors import WarpsmithError


class ReportError(WarpsmithError):
    """The report, or the live page, cannot be made."""
