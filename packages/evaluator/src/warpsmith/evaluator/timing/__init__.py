"""Timing: clocks, rounds in the workers, and the shortest credible time."""
