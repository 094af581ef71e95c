"""Adapters of `warpsmith.evaluator.rewards` for training and evaluation frameworks, one module each.

Each module imports its framework at the first use of it, or, where classes of the framework are extended, when it is
imported. Each has an extra of the same name. docs/integrations.md has an example of each.
"""
