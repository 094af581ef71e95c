"""What a long run needs, looked at before it: `warpsmith-trainer doctor`."""
