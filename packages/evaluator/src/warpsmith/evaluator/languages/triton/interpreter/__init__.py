"""Triton's interpreter, made to mean what the compiler means, or to refuse the rest."""
