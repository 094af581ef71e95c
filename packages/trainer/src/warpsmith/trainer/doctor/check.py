"""A check, and how a list of checks is run: report every finding, or stop at errors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from warpsmith.records.errors import WarpsmithError
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import ConfigError, UnfitRunError


@dataclass(frozen=True)
class Check:
    """A check of one thing that a run needs.

    Attributes:
        what: name of what is checked.
        look: yields findings, and raises a typed error if the run cannot start.
        needs: checks that must pass first; if one failed, this one would find nothing new.
    """

    what: str
    look: Callable[[], Iterable[Finding]]
    needs: tuple[str, ...] = ()


def outcomes(
    checks: Sequence[Check], failed: set[str] | None = None
) -> Iterator[tuple[Check, list[Finding], WarpsmithError | None]]:
    """Yield each check with its findings and the error that it ended with.

    Args:
        checks: in the order of `needs`.
        failed: names of checks that failed before; those that fail here are added.
    """
    failed = set() if failed is None else failed
    for check in checks:
        if failed.intersection(check.needs):
            failed.add(check.what)
            continue
        found: list[Finding] = []
        try:
            found += check.look()
        except (WarpsmithError, OSError) as error:
            failed.add(check.what)
            yield check, found, _typed(error)
        else:
            yield check, found, None


def _typed(error: WarpsmithError | OSError) -> WarpsmithError:
    if isinstance(error, WarpsmithError):
        return error
    return ConfigError(f"The operating system refused it: {error}.", "Fix that, and try again.")


def findings_of(checks: Sequence[Check]) -> Iterator[Finding]:
    """Yield all findings of a list of checks; a raised error is a finding too."""
    for check, found, error in outcomes(checks):
        yield from found
        if error is not None:
            yield Finding(check.what, "error", error.message, error.remedy)


def stop_at_errors(checks: Sequence[Check]) -> None:
    """Run a list of checks, and reject the run with all errors at once.

    Raises:
        WarpsmithError: the error of the one check that failed.
        UnfitRunError: several failed.
    """
    errors = [error for _, _, error in outcomes(checks) if error is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        listed = " ".join(f"({number}) {error}" for number, error in enumerate(errors, 1))
        raise UnfitRunError(
            f"{len(errors)} checks failed: {listed}",
            "`warpsmith-trainer doctor` on the same file shows every check.",
        )
