"""The evaluator behind HTTP: needs the extra `serve`. Nothing here imports torch."""
