"""Generated problems in KernelBench's form, with solutions in Triton or CUDA C++ that are correct by construction.

Imports no torch: problems are text.
"""

from warpsmith.rollout.generator.gpu.sizes import GPU_BYTES, ByteRange
from warpsmith.rollout.generator.gpu.solutions import Grade, Solution, SolutionLanguage, SolutionSpace
from warpsmith.rollout.generator.held_out_split import Split, split_of
from warpsmith.rollout.generator.problems import SOLUTION_LANGUAGES, GeneratedProblem, Size, generate, solution_language

__all__ = [
    "GPU_BYTES",
    "SOLUTION_LANGUAGES",
    "ByteRange",
    "GeneratedProblem",
    "Grade",
    "Size",
    "Solution",
    "SolutionLanguage",
    "SolutionSpace",
    "Split",
    "generate",
    "solution_language",
    "split_of",
]
