"""The judge's side of a problem: its session, how its inputs vary, what its reference tolerates."""
