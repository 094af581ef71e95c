"""Environments: they define a turn's prompt, how its answer is evaluated and scored, and when an episode ends."""
