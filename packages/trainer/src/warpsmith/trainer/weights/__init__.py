"""Weights outside of training: checkpoints, sync to samplers and its probe, exported models."""
