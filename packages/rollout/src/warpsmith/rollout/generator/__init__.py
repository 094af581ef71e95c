"""Generated problems in KernelBench's form, each with a Triton solution that is correct by construction.

Imports no torch: problems are text.
"""

from warpsmith.rollout.generator.held_out_split import Split, split_of
from warpsmith.rollout.generator.problems import GeneratedProblem, generate

__all__ = ["GeneratedProblem", "Split", "generate", "split_of"]
