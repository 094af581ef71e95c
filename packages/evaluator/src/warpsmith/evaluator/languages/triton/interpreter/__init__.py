"""Triton's interpreter, changed to follow the compiler and to reject what it cannot follow."""
