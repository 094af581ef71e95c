"""Fenced twins of kernels: PTX is parsed, and rewritten with a check before each access."""
