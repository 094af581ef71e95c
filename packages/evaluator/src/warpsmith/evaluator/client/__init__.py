"""The caller's interface: an evaluator on this machine or over HTTP (`remote`). Importable without torch."""
