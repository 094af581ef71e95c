"""The loss of a policy update, composed of short functions: ratio, clip, correction, divergence, aggregation, value."""
