"""Environments: what a turn is asked, how its answer is evaluated and scored, and when an episode ends."""
