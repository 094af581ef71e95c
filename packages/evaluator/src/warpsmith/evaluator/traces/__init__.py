"""Data sets of definitions, workloads, solutions and traces: FlashInfer-trace and SOL-ExecBench.

Importable without torch.
"""
