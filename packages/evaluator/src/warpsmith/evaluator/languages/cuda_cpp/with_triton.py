"""CUDA C++ as candidates write it: their modules may launch Triton kernels too. Importable without torch."""

from typing import Final

from warpsmith.evaluator.languages.combined import Combined
from warpsmith.evaluator.languages.cuda_cpp.language import CUDA_CPP as ALONE
from warpsmith.evaluator.languages.triton.language import TRITON


class CudaCppWithTriton(Combined):
    """CUDA C++, alongside Triton kernels."""

    name = ALONE.name
    title = ALONE.title
    kernel_form = ALONE.kernel_form
    slow_compile_advice = ALONE.slow_compile_advice
    compilation_category = ALONE.compilation_category
    builds_ahead = True
    copy_to_variable = ALONE.copy_to_variable
    probe = ALONE.probe


CUDA_CPP: Final = CudaCppWithTriton(ALONE, TRITON)
"""What `language = "cuda_cpp"` names."""
