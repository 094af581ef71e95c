"""Where batches come from: rank 0's session of sampler and evaluator, batches in order, prefetch, staleness."""
