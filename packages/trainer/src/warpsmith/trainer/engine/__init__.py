"""The model in training: ranks, DeepSpeed ZeRO, micro-batches, gathered weights."""
