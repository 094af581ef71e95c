"""The model in training: ranks, DeepSpeed ZeRO, micro-batches, forward passes, gathered weights."""
