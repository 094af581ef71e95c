"""Triton: extraction by syntax, compilation without a device, launches, fenced twins."""
