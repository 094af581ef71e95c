"""A detached run: its services, each with a keeper, a log and a state file. docs/training.md, "A detached run"."""
