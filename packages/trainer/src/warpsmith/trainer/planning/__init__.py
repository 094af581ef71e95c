"""Predicts whether a run fits a machine, from its configuration and the model's shapes. Imports no torch."""
