"""The stages of an evaluation that replay recordings: trials, the run without kernels, timed calls."""
