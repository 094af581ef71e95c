"""Transfer of weights from the trainer to a sampler: the payload, and the transports to worker processes."""
