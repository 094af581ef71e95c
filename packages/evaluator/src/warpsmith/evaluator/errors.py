"""Typed errors of the evaluator. A verdict about a candidate is never an exception; these are for everything else."""

from warpsmith.records.errors import WarpsmithError


class EvaluatorError(WarpsmithError):
    """Root of the errors that this package raises."""


class BadProblemError(EvaluatorError):
    """The problem itself cannot be judged: no `Model`, a syntax error, inputs that are not tensors, bf16 on a CPU."""


class DatasetError(BadProblemError):
    """A file or folder of problems cannot be read: missing, malformed, a row that is not a problem, a duplicate."""


class IsolationUnavailableError(EvaluatorError):
    """This machine does not support the minimum isolation tier of the configuration."""


class JudgeUnavailableError(EvaluatorError):
    """The judge process could not be started, or died too often."""


class DeviceQuarantinedError(JudgeUnavailableError):
    """The device failed its probe too often and is out of use."""


class WireError(EvaluatorError):
    """Bytes that are not a value of the wire format: unknown tag, wrong length, too deep, too many items."""


class LayoutError(EvaluatorError):
    """A described tensor breaks a rule: unknown dtype, negative size, more bytes than the limit, outside its arena."""
