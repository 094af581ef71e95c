"""Collections of problems on disk: KernelBench's layouts and rows. Importable without torch."""
