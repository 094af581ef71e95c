"""Typed errors of the evaluator. A verdict about a candidate is never an exception; these are about everything else."""

from warpsmith.records.errors import WarpsmithError


class EvaluatorError(WarpsmithError):
    """Root of the errors that this package raises."""


class BadProblemError(EvaluatorError):
    """The problem itself cannot be judged: no `Model`, a syntax error, inputs that are no tensors, bf16 on a CPU."""


class DatasetError(BadProblemError):
    """A file or folder of problems cannot be read: missing, of another form, a row that is no problem, one twice."""


class IsolationUnavailableError(EvaluatorError):
    """This machine cannot give the isolation tier that the configuration asks for at least."""


class JudgeUnavailableError(EvaluatorError):
    """The judge process could not be started, or died more often than it may."""


class DeviceQuarantinedError(JudgeUnavailableError):
    """The device failed its probe too often and is out of use."""


class WireError(EvaluatorError):
    """Bytes that are no value of the wire format: unknown tag, wrong length, too deep, too many items."""


class LayoutError(EvaluatorError):
    """A described tensor breaks a rule: unknown dtype, negative size, more bytes than the limit, outside its arena."""
