"""Transfer of weights from a sampler's own process to its worker processes; see `base.WeightTransport`."""
