"""The instructions for a task: the rules by which candidates are judged, and a prompt of one turn. Torch-free.

Each kernel language has a form of its own: how a candidate is written, what its host code may do, an example.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from warpsmith.evaluator.recordings.library_policy import FAMILIES, OperatorPolicy
from warpsmith.records.errors import UsageError

_SYSTEM: Final = "You are an expert in GPU programming. You rewrite PyTorch modules as fast, correct {kernels}."
_TASK: Final = (
    "Rewrite the PyTorch module `Model` below as a module `ModelNew` that computes the same with {kernels}{built}."
)

_RULES: Final = """\
Rules:
- `ModelNew` takes the same constructor arguments as `Model`, and its `forward` takes and returns the same tensors: \
same shapes, dtypes and device.
- {operators}
{own}\
- Parameters keep their names and shapes. Their values may change between calls, so anything derived from them must be \
computed again in every call. The same holds for inputs: nothing may be kept from an earlier call.
- Do not write to the inputs. Take every size from the inputs: they also come smaller than `get_inputs()` makes them, \
in sizes that are no multiple of your block. Block sizes may be tuned to the sizes of `get_inputs()`.
- {products}
- `get_inputs()` promises shapes, dtypes and what its code builds into the inputs (sorted rows, masks, lengths, index \
bounds), not the range of its random numbers: they also come with other signs and sizes, zero rows and large outliers.
- Outputs are compared on several sets of new random inputs; then the kernels are timed against PyTorch.

{example}\
Answer with one complete file in a single ```python code block, imports included."""

_OPERATORS: Final[dict[OperatorPolicy, str]] = {
    "none": "The computation happens in {kernels} that you write. PyTorch may allocate tensors, make views "
    "and read shapes; any other PyTorch operation in `forward` is rejected.",
    "library": "Write {kernels} for the computation. Beside them PyTorch may allocate tensors, make views, "
    f"read shapes and compute {', '.join(FAMILIES)}; any other PyTorch operation in `forward`, and `torch.compile`, is "
    "rejected, and so is an output that is right without your kernels.",
    "any": "Write {kernels} for as much of the computation as makes it fast. PyTorch may compute the rest, "
    "but without random numbers, indexing by tensors, shapes that depend on values, and `torch.compile`; an output "
    "that is right without your kernels is rejected.",
}
"""The rule on PyTorch's operators, by the policy in force."""

CUDA_EXAMPLE: Final = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void add_kernel(const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

torch::Tensor add(torch::Tensor x, torch::Tensor y) {
    TORCH_CHECK(x.is_contiguous() && y.is_contiguous(), "add: contiguous tensors were expected");
    torch::Tensor out = torch::empty_like(x);
    const int64_t n = x.numel();
    const int threads = 256;
    add_kernel<<<(n + threads - 1) / threads, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="add",
    cpp_sources="torch::Tensor add(torch::Tensor x, torch::Tensor y);",
    cuda_sources=CUDA_SOURCE,
    functions=["add"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
'''
"""The answer to a module that adds two tensors."""

_CUDA_RULES: Final = """\
- Build the kernels when the module is imported, with `load_inline`: host functions in `cuda_sources`, their \
declarations in `cpp_sources`, their names in `functions`. `extra_cuda_cflags` may set optimisation, C++ standard, \
fast math, registers and macros; the chip is set for you. Other flags, libraries (cuBLAS, cuDNN, CUTLASS) and include \
folders are refused. There are the CUDA toolkit's headers, CUB, Thrust and the C++ standard library.
- C++ host code may allocate (`torch::empty`, `zeros`, `full`, `empty_like`), view, copy, check with `TORCH_CHECK` and \
launch kernels; computing there with `at::` or `torch::` functions counts as a PyTorch operation. It never sees the \
contents of a tensor: no `item()`, no copy to the host. No CUDA graphs, textures or managed memory.
- Kernels do not use `printf`, `malloc` or `new`, and launch no kernels. Do not keep values in `__device__` variables: \
they are reset before each call. Launch on the current stream.
"""


@dataclass(frozen=True)
class _Form:
    """What is asked for in a kernel language.

    Args:
        kernels: its kernels, in a sentence.
        own_kernels: the same, as code names them.
        built: how the module gets its kernels, behind `kernels`; empty if that needs no words.
        rules: rules of the language alone, a line each.
        products: the rule on fp32 products.
        example: an answer with its problem; empty if there is none.
        mark: the first line of a compact prompt; empty for none.
    """

    kernels: str
    own_kernels: str
    products: str
    built: str = ""
    rules: str = ""
    example: str = ""
    mark: str = ""


_FORMS: Final[Mapping[str, _Form]] = MappingProxyType(
    {
        "triton": _Form(
            kernels="Triton kernels",
            own_kernels="`@triton.jit` kernels",
            products='fp32 products need `input_precision="ieee"` in `tl.dot` to stay within the tolerance.',
        ),
        "cuda_cpp": _Form(
            kernels="CUDA C++ kernels",
            own_kernels="`__global__` kernels",
            products="fp32 products in TF32 tensor cores or with fp16 factors do not stay within the tolerance.",
            built=", built by `torch.utils.cpp_extension.load_inline`",
            rules=_CUDA_RULES,
            example="The answer to a module whose `forward(x, y)` returns `x + y`, to show the form:\n"
            f"```python\n{CUDA_EXAMPLE}```\n\n",
            mark="# CUDA C++, load_inline",
        ),
    }
)

LANGUAGES: Final[tuple[str, ...]] = tuple(_FORMS)
"""The kernel languages that a model can be asked for."""


class UnaskedLanguageError(UsageError):
    """No prompt asks for kernels in a language."""


def _form(language: str) -> _Form:
    if language not in _FORMS:
        raise UnaskedLanguageError(f"{unasked(language)}.", f"Set evaluator.language to {' or '.join(LANGUAGES)}.")
    return _FORMS[language]


def unasked(language: str) -> str:
    """Return what is wrong with a language that no prompt asks for, without a full stop; empty for others."""
    if language in _FORMS:
        return ""
    return f"No prompt asks for kernels in the language {language!r}; the languages are {', '.join(LANGUAGES)}"


def kernels_of(language: str) -> str:
    """Return what the kernels of a language are called in a sentence, for example "Triton kernels".

    Raises:
        UnaskedLanguageError: no prompt asks for this language; so do the functions below.
    """
    return _form(language).kernels


def mark_of(language: str) -> str:
    """Return the line by which a compact prompt asks for a language; empty for Triton, which needs none."""
    return _form(language).mark


def system(language: str = "triton") -> str:
    """Return the system message of a task."""
    return _SYSTEM.format(kernels=_form(language).kernels)


def request(language: str = "triton") -> str:
    """Return the sentence that asks for a module with kernels."""
    form = _form(language)
    return _TASK.format(kernels=form.kernels, built=form.built)


def rules(operators: OperatorPolicy = "none", language: str = "triton") -> str:
    """Return the rules for candidates in a language under a policy of operators."""
    form = _form(language)
    return _RULES.format(
        operators=_OPERATORS[operators].format(kernels=form.own_kernels),
        own=form.rules,
        products=form.products,
        example=form.example,
    )


def task(problem: str, operators: OperatorPolicy = "none", language: str = "triton") -> str:
    """Return the message that asks for a kernel.

    Args:
        problem: the problem's source.
        operators: what `forward` may compute with PyTorch besides its kernels.
        language: kernel language of the answer.
    """
    return f"{request(language)}\n\n{rules(operators, language)}\n\nProblem:\n```python\n{problem.strip()}\n```"


def chat(problem: str, operators: OperatorPolicy = "none", language: str = "triton") -> list[dict[str, str]]:
    """Return the same as a conversation: a system message and `task`."""
    messages = [("system", system(language)), ("user", task(problem, operators, language))]
    return [{"role": role, "content": content} for role, content in messages]


SYSTEM: Final = system()
TASK: Final = request()
"""Both for Triton."""
