"""The caller's interface: an evaluator on this machine (`evaluator`) or over HTTP (`remote`). Importable without torch."""
