"""Checks for packages that this build of torch is incompatible with."""

from collections.abc import Iterator

from warpsmith.policy.packages import check_beside_torch
from warpsmith.trainer.doctor.finding import Finding


def beside_torch() -> Iterator[Finding]:
    """Ask whether transformers and vLLM can be imported beside what is installed.

    Raises:
        PackagesError: they cannot.
    """
    if said := check_beside_torch():
        yield Finding("packages beside torch", "ok", said)
