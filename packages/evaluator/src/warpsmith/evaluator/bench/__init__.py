"""KernelBench runs: generations on disk in, verdicts and scores out. Importable without torch."""
