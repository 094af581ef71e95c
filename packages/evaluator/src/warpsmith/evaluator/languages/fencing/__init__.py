"""Fenced twins of kernels: PTX is read, and written anew with a check before each access."""
