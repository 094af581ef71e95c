"""A check, and how a list of checks is run: to report every finding, or to stop at errors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from warpsmith.records.errors import WarpsmithError
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import ConfigError, UnfitRunError


@dataclass(frozen=True)
class Check:
    """One look at what a run needs.

    Attributes:
        what: what is looked at.
        look: yields findings, and raises a typed error for what stops the run.
        needs: checks that must pass first; after a failed one, this one would find nothing new.
    """

    what: str
    look: Callable[[], Iterable[Finding]]
    needs: tuple[str, ...] = ()


def outcomes(
    checks: Sequence[Check], failed: set[str] | None = None
) -> Iterator[tuple[Check, list[Finding], WarpsmithError | None]]:
    """Yield each check with what it found and the error that it ended in.

    Args:
        checks: in the order of `needs`.
        failed: names of checks that failed before, to which those that fail here are added.
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
    """Yield everything that a list of checks finds; what one raises is a finding too."""
    for check, found, error in outcomes(checks):
        yield from found
        if error is not None:
            yield Finding(check.what, "error", error.message, error.remedy)


def stop_at_errors(checks: Sequence[Check]) -> None:
    """Go through a list of checks, and refuse the run by all that is wrong at once.

    Raises:
        WarpsmithError: the error of the one check that failed.
        UnfitRunError: several failed.
    """
    errors = [error for _, _, error in outcomes(checks) if error is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        told = " ".join(f"({number}) {error}" for number, error in enumerate(errors, 1))
        raise UnfitRunError(
            f"{len(errors)} checks failed: {told}",
            "`warpsmith-trainer doctor` on the same file shows every check.",
        )
