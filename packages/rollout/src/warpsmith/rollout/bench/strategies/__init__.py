"""Strategies: how a search spends its attempts."""
