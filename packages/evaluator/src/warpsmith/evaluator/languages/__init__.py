"""Kernel languages: how kernels are taken out of a source, compiled, recorded and launched."""
