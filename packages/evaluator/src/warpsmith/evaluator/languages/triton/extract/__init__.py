"""Takes kernels out of a candidate's source by syntax; `extraction.py` is the way in."""
