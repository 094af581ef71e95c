"""The loss of a policy update, put together from short functions: ratio, clip, divergence, aggregation.

`presets` (no torch) names the algorithms; the other modules (torch) hold the functions that they choose from.
"""
