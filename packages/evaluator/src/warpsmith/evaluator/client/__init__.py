"""What a caller imports: an evaluator here (`evaluator`) or behind HTTP (`remote`). Importable without torch."""
