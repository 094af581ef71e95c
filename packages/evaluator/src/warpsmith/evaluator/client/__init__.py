"""The caller's interface: an evaluator on this machine (`evaluator`) or over HTTP (`remote`). Torch-free."""
