"""Checkpoints of Megatron-Core: `torch_dist`, and the older layout of one file per rank."""
