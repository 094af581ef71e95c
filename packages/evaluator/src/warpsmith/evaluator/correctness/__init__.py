"""Compares outputs: comparison, per-element bounds, and the perturbations that determine them."""
