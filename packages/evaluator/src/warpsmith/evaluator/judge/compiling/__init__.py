"""Compiling a candidate's kernels for the target chip: the service with its cache, and one candidate's run."""
