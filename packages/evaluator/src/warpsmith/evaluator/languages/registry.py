"""Kernel languages by name: the entry points in `warpsmith.languages`. Importable without torch."""

from typing import Annotated, Any, Final

from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.records.choices import Choices
from warpsmith.records.registry import Registry


def _check(part: Any) -> str:
    return "" if isinstance(part, KernelLanguage) else "is not a warpsmith.evaluator.languages.base.KernelLanguage"


LANGUAGES: Final[Registry[KernelLanguage]] = Registry("warpsmith.languages", "kernel language", _check)


def language_of(name: str) -> KernelLanguage:
    """Return a language by its name in a configuration.

    Raises:
        RegistryError: no package provides it, or it cannot be imported.
    """
    return LANGUAGES.get(name)


BACKENDS: Final = {"triton": "triton", "cuda": "cuda_cpp"}
"""The kernel language that `--backend` names, as KernelBench does."""

LanguageName = Annotated[str, Choices(LANGUAGES)]
