"""Candidates that end in every way, made of one that is correct, and the status that each is given."""

FORWARD = "def forward(self, x, y):\n"
ENDINGS = {
    "correct": lambda source: source,
    "incorrect": lambda source: source.replace("mask=mask) + tl", "mask=mask) - tl"),
    "compile_error": lambda source: source.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK"),
    "runtime_error": lambda source: source.replace(FORWARD, f"{FORWARD}        raise ValueError('no')\n"),
    "crash": lambda source: source.replace(FORWARD, f"{FORWARD}        import ctypes; ctypes.string_at(0)\n"),
    "exit": lambda source: source.replace(FORWARD, f"{FORWARD}        import os; os._exit(0)\n"),
    "timeout": lambda source: source.replace(FORWARD, f"{FORWARD}        import time; time.sleep(60)\n"),
}
STATUS = {"crash": "runtime_error", "exit": "runtime_error"}
"""Of those whose status is not their name."""
