"""SakanaAI's AI CUDA Engineer Archive: kernels of CUDA C++ for KernelBench's levels 1 to 3."""

import json
from typing import ClassVar, Final

from warpsmith.rollout.datasets.formats import Cells, Claim, Column, DatasetReader, Entry

# The archive's kernels were built from a .cu file with these flags, and called instead of `module_fn`, which the
# functional form of a problem takes as the default of `fn`.
_CANDIDATE: Final = """\
{functional}


from torch.utils.cpp_extension import load_inline as _load_inline

_CUDA_CODE = {code}

_extension = _load_inline(
    name="archived_kernel",
    cpp_sources="",
    cuda_sources=_CUDA_CODE,
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(Model):
    def forward(self, *args):
        return super().forward(*args, fn=_extension.forward)
"""


class SakanaReader(DatasetReader):
    """Pairs the functional form of each problem with the kernel that replaces its function.

    `problem` is the functional form, against which the archive judged: parameters of both have equal names. The module,
    as KernelBench has it, is in `others`.
    """

    name = "sakana"
    title = "SakanaAI/AI-CUDA-Engineer-Archive: kernels in CUDA C++ for KernelBench, levels 1 to 3"
    schema: ClassVar = (
        Column("name", "Op_Name", "text", "name of the problem"),
        Column("level", "Level_ID", "integer", "KernelBench's level"),
        Column("number", "Task_ID", "integer", "KernelBench's number in the level"),
        Column("label", "Kernel_Name", "text", "name of the kernel", required=False),
        Column("kernel", "CUDA_Code", "text", "the .cu file: kernels, host code, PYBIND11_MODULE with `forward`"),
        Column("module", "PyTorch_Code_Module", "text", "the problem as KernelBench has it", required=False),
        Column("problem", "PyTorch_Code_Functional", "text", "the same with `forward(..., fn=module_fn)`"),
        Column("correct", "Correct", "boolean", "whether the archive calls it correct", nullable=True),
        Column("speedup", "CUDA_Speedup_Native", "number", "speedup over eager PyTorch", required=False),
        Column("error", "Error", "text", "how it failed", required=False),
    )

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        level, number = cells.integer("level"), cells.integer("number")
        name, functional, module = cells.text("name"), cells.text("problem"), cells.text("module")
        code = json.dumps(cells.text("kernel"))
        return Entry(
            name=f"level{level}/{name if name.startswith(f'{number}_') else f'{number}_{name}'}",
            problem=functional,
            level=level,
            kernel=_CANDIDATE.format(functional=functional.rstrip(), code=code),
            language="cuda_cpp",
            claim=Claim(cells.boolean("correct"), cells.number("speedup"), cells.text("error") or None),
            others=(module,) if module else (),
            label=cells.text("label"),
        )


SAKANA: Final = SakanaReader()
