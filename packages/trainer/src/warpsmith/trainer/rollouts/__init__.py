"""Source of batches: rank 0's session of samplers and evaluator, batches in order, prefetch, staleness."""
