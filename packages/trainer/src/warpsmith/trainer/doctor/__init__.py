"""`warpsmith-trainer doctor`: checks before a run."""
