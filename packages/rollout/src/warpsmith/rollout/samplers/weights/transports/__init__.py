"""How weights get from a sampler's own process into its worker processes; see `base.WeightTransport`."""
