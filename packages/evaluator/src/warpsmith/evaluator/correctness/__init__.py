"""Whether outputs agree: comparison, per-element bounds, and the perturbations behind them."""
