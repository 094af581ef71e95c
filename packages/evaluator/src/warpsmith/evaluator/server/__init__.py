"""The evaluator over HTTP: needs the extra `serve`. Nothing here imports torch."""
