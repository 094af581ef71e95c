"""Problems, and data sets of problems with kernels: readers, verification, decontamination.

`problems` is re-exported here. `registry` has the readers of published data sets, `verification` judges their kernels,
`cleaning` removes KernelBench's problems and duplicates.
"""

from warpsmith.rollout.datasets.problems import (
    ProblemRow,
    from_generated,
    generated,
    kernelbench_directory,
    kernelbench_jsonl,
    read_problems,
    with_solution,
    write_directory,
)

__all__ = [
    "ProblemRow",
    "from_generated",
    "generated",
    "kernelbench_directory",
    "kernelbench_jsonl",
    "read_problems",
    "with_solution",
    "write_directory",
]
