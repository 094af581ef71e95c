"""The view of a run in W&B: which figures stand together, where, and on which axes."""
