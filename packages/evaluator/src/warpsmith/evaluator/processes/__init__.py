"""The judge's handles of zygotes and workers: start, watch, end, and whose fault an end was."""
