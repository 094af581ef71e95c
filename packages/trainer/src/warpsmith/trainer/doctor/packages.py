"""Checks for packages that this build of torch is incompatible with."""

from collections.abc import Iterator

from warpsmith.policy.packages import check_beside_torch
from warpsmith.trainer.doctor.finding import Finding


def beside_torch() -> Iterator[Finding]:
    """Check that transformers and vLLM can be imported with the installed packages.

    Raises:
        PackagesError: they cannot.
    """
    if said := check_beside_torch():
        yield Finding("packages beside torch", "ok", said)
