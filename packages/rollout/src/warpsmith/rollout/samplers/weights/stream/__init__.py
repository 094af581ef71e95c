"""Weights as a stream of buckets in memory that trainer and sampler share; see `layout.StreamLayout`."""
