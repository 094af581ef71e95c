"""What a model is told about a task: the rules by which candidates are judged, and a prompt of one turn. Torch-free."""

from typing import Final

from warpsmith.evaluator.recordings.library_policy import FAMILIES, OperatorPolicy

SYSTEM: Final = "You are an expert in GPU programming. You rewrite PyTorch modules as fast, correct Triton kernels."
TASK: Final = (
    "Rewrite the PyTorch module `Model` below as a module `ModelNew` that computes the same with Triton kernels."
)

_RULES: Final = """\
Rules:
- `ModelNew` takes the same constructor arguments as `Model`, and its `forward` takes and returns the same tensors: \
same shapes, dtypes and device.
- {operators}
- Parameters keep their names and shapes. Their values may change between calls, so anything derived from them must be \
computed again in every call. The same holds for inputs: nothing may be kept from an earlier call.
- Do not write to the inputs. Take every size from the inputs: they also come smaller than `get_inputs()` makes them, \
in sizes that are no multiple of your block. Block sizes may be tuned to the sizes of `get_inputs()`.
- fp32 products need `input_precision="ieee"` in `tl.dot` to stay within the tolerance.
- `get_inputs()` promises shapes, dtypes and what its code builds into the inputs (sorted rows, masks, lengths, index \
bounds), not the range of its random numbers: they also come with other signs and sizes, zero rows and large outliers.
- Outputs are compared on several sets of new random inputs; then the kernels are timed against PyTorch.

Answer with one complete file in a single ```python code block, imports included."""

_OPERATORS: Final[dict[OperatorPolicy, str]] = {
    "none": "The computation happens in `@triton.jit` kernels that you write. PyTorch may allocate tensors, make views "
    "and read shapes; any other PyTorch operation in `forward` is rejected.",
    "library": "Write `@triton.jit` kernels for the computation. Beside them PyTorch may allocate tensors, make views, "
    f"read shapes and compute {', '.join(FAMILIES)}; any other PyTorch operation in `forward`, and `torch.compile`, is "
    "rejected, and so is an output that is right without your kernels.",
    "any": "Write `@triton.jit` kernels for as much of the computation as makes it fast. PyTorch may compute the rest, "
    "but without random numbers, indexing by tensors, shapes that depend on values, and `torch.compile`; an output "
    "that is right without your kernels is rejected.",
}
"""The rule on PyTorch's operators, by the policy in force."""


def rules(operators: OperatorPolicy = "none") -> str:
    """Return the rules for candidates under a policy of operators."""
    return _RULES.format(operators=_OPERATORS[operators])


def task(problem: str, operators: OperatorPolicy = "none") -> str:
    """Return the message that asks for a kernel.

    Args:
        problem: the problem's source.
        operators: what `forward` may compute with PyTorch beside its kernels.
    """
    return f"{TASK}\n\n{rules(operators)}\n\nProblem:\n```python\n{problem.strip()}\n```"


def chat(problem: str, operators: OperatorPolicy = "none") -> list[dict[str, str]]:
    """Return the same as a conversation: a system message and `task`."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task(problem, operators)}]
