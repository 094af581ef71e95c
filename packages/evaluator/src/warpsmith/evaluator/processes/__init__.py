"""The judge's handles of zygotes and workers: start, watch, end, and attribution of failures."""
