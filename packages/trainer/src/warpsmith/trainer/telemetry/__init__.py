"""What a run reports: metrics, console, step log, held-out evaluations, warnings."""
