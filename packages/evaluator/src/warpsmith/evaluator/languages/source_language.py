"""Which kernel language a source is written in: a candidate in another one gets a verdict that says so."""

from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.languages.registry import BACKENDS, LANGUAGES, language_of
from warpsmith.records.registry import RegistryError


def other_language(source: str, language: KernelLanguage) -> KernelLanguage | None:
    """Return the language that a source is written in instead of `language`; None if it may be in that one.

    A source that uses several, or none that its text reveals, may be in `language`.
    """
    if language.is_in(source) is not False:
        return None
    return next((other for other in map(_known, LANGUAGES.names()) if other and other.is_in(source)), None)


def wider_language(source: str, language: KernelLanguage) -> KernelLanguage | None:
    """Return the language that takes kernels of `language` besides its own, if a source uses both; None otherwise."""
    if not language.is_in(source):
        return None
    others = (other for other in map(_known, LANGUAGES.names()) if other and other.name != language.name)
    return next((other for other in others if language.name in other.parts and other.is_in(source)), None)


def option_of(language: KernelLanguage) -> str:
    """Return how a user asks for a language, in a configuration and on a command line."""
    backend = next((name for name, known in BACKENDS.items() if known == language.name), None)
    return f"language = {language.name!r}" + (f" (--backend {backend})" if backend else "")


def _known(name: str) -> KernelLanguage | None:
    """Return a language; None for a package's that does not load, which stops only evaluators that judge it."""
    try:
        return language_of(name)
    except RegistryError:
        return None
