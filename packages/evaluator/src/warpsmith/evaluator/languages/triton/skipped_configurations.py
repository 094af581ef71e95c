"""Which failures of a configuration make `triton.autotune` go on with others; importable without Triton."""

from typing import Final

CATEGORIES: Final = frozenset({"shared_memory_exceeded", "assertion_error"})
"""Categories of what the autotuner gives an infinite time."""
COMPILATION: Final = "triton_compilation_error"
ASSEMBLER: Final = "PTXAS error"
"""How the message of the assembler's errors begins; they are compilation errors like others here."""


def skips(category: str | None, message: str) -> bool:
    """Whether the autotuner skips a configuration that fails in this way, as `Autotuner._bench` does."""
    return category in CATEGORIES or (category == COMPILATION and message.startswith(ASSEMBLER))
