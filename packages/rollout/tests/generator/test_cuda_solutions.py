"""Solutions in CUDA C++: nvcc compiles each, and run as host code each computes what the problem does."""

import ctypes
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from warpsmith.evaluator.languages.cuda_cpp import compilation, toolkit
from warpsmith.evaluator.languages.cuda_cpp.builds import Build
from warpsmith.evaluator.languages.cuda_cpp.with_triton import CUDA_CPP
from warpsmith.records.errors import UsageError
from warpsmith.rollout.generator import ByteRange, generate
from warpsmith.rollout.generator.cuda import operations
from warpsmith.rollout.generator.gpu.families import GPU_LEVELS
from warpsmith.rollout.generator.gpu.solutions import LONGEST
from warpsmith.rollout.generator.operations import BINARY, UNARY

torch = pytest.importorskip("torch")

HEADER = Path(__file__).with_name("cuda_emulation.h")
MAIN = "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
FEW = ByteRange(8192, 65_536)
FAMILIES = {family.__name__ for families in GPU_LEVELS.values() for family in families}
MOST_THREADS = 64
"""Threads of a block where the solution leaves it open: fibers take their time."""
_SOURCE = re.compile(r'SOURCE = r"""\n(.*?)"""', re.DOTALL)
_PARAMETERS = re.compile(r"torch::Tensor run\((.*?)\)")
_LAUNCH = re.compile(r"(\w+)<<<(.*?)>>>\((.*?)\);", re.DOTALL)


@dataclass
class Case:
    """A solution, and the problem that it solves."""

    problem: Any
    pattern: Any
    text: str

    @property
    def name(self):
        return f"{self.problem.name} {self.pattern.name if self.pattern else ''}"

    @property
    def source(self):
        return _SOURCE.search(self.text)[1]


def small_choices(pattern):
    """Return the choices of a pattern, with fewer threads where that does not change what a thread does."""
    return {name: min(*values, MOST_THREADS) for name, values in pattern.choices.items()}


@pytest.fixture(scope="module")
def cases():
    """Each pattern of two problems of each family."""
    found, counts = [], defaultdict(int)
    for problem in generate(seed=5, count=200, size="gpu", touched=FEW, language="cuda_cpp"):
        counts[problem.family] += 1
        if counts[problem.family] <= 2:
            draft = problem.space.draft
            found += [Case(problem, one, one.text(draft, draft.inputs, small_choices(one))) for one in draft.cuda]
    assert {case.problem.family for case in found} == FAMILIES
    small = generate(seed=5, count=24, language="cuda_cpp")
    return found + [Case(problem, None, problem.solution) for problem in small]


def test_every_operation_has_its_text():
    assert {operation.name for operation in UNARY} == set(operations.UNARY)
    assert {operation.name for operation in BINARY} == set(operations.BINARY)


def test_a_language_changes_no_problem_and_every_solution():
    for size in ("cpu", "gpu"):
        triton, cuda = (generate(seed=2, count=30, size=size, language=one) for one in ("triton", "cuda_cpp"))
        assert [one.source for one in triton] == [one.source for one in cuda]
        assert all("triton" not in one.solution and CUDA_CPP.is_in(one.solution) for one in cuda)
        assert [one.naive is None for one in triton] == [one.naive is None for one in cuda]
    with pytest.raises(UsageError, match="no solutions in 'fortran'"):
        generate(seed=2, count=1, language="fortran")


def test_there_are_naive_and_good_ones_of_each_family(cases):
    grades = defaultdict(set)
    for case in cases:
        if case.pattern is not None:
            grades[case.problem.family].add(case.pattern.grade)
    assert set(map(frozenset, grades.values())) == {frozenset({"naive", "good"})}


def test_solutions_are_short_and_vary_by_named_choices():
    for problem in generate(seed=8, count=60, size="gpu", language="cuda_cpp"):
        texts = [solution.text for solution in problem.space.solutions()]
        assert len(set(texts)) == len(texts)
        assert max(map(len, texts)) <= LONGEST["cuda_cpp"]
        assert {problem.naive, problem.solution} <= set(texts)
        assert "$" not in "".join(texts)


def as_host_code(case, number):
    """Return a solution in a namespace of its own, with a function that takes and delivers plain memory."""
    source = _LAUNCH.sub(r"emulated::launch(\2, [&] { \1(\3); });", case.source)
    count = _PARAMETERS.search(source)[1].count("torch::Tensor")
    arguments = ", ".join(f"tensor_of(inputs[{place}])" for place in range(count))
    called = f"deliver(solution_{number}::run({arguments}), out)"
    return (
        f"namespace solution_{number} {{\n{source}}}\n"
        f'extern "C" int64_t run_{number}(const Described* inputs, float* out) {{ return {called}; }}\n'
    )


class Described(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("dims", ctypes.c_int64), ("sizes", ctypes.c_int64 * 4))


def described(tensor):
    sizes = (ctypes.c_int64 * 4)(*tensor.shape)
    return Described(tensor.data_ptr(), tensor.dim(), sizes)


def reference(problem):
    """Return what host code passes to a solution, and what the problem computes."""
    namespace: dict[str, Any] = {}
    exec(compile(problem.source, problem.name, "exec"), namespace)
    torch.manual_seed(0)
    model = namespace["Model"](*namespace["get_init_inputs"]())
    inputs = namespace["get_inputs"]()
    with torch.no_grad():
        expected = model(*inputs)
    return [one.contiguous() for one in [*inputs, *(one.detach() for one in model.parameters())]], expected


@pytest.mark.slow
def test_each_computes_what_its_problem_does(cases, tmp_path):
    texts = [as_host_code(case, number) for number, case in enumerate(cases)]
    source, library = tmp_path / "solutions.cpp", tmp_path / "solutions.so"
    source.write_text(f'#include "{HEADER}"\n' + "\n".join(texts))
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    loaded = ctypes.CDLL(str(library))
    for number, case in enumerate(cases):
        inputs, expected = reference(case.problem)
        run = getattr(loaded, f"run_{number}")
        run.restype = ctypes.c_int64
        for descending in (0, 1):
            loaded.set_descending(descending)
            out = torch.full_like(expected, float("nan")).contiguous()
            delivered = run((Described * len(inputs))(*map(described, inputs)), ctypes.c_void_p(out.data_ptr()))
            assert delivered == expected.numel(), case.name
            torch.testing.assert_close(out, expected, rtol=2e-4, atol=2e-4, msg=partial(_explained, case))


def _explained(case, why):
    return f"{case.name}: {why}\n{case.text}"


@pytest.mark.slow
def test_nvcc_compiles_each_family_and_each_has_a_fenced_twin(cases, tmp_path):
    try:
        toolkit.find()
    except toolkit.ToolkitError as error:
        pytest.skip(str(error))
    chosen = {(case.problem.family, case.pattern.name): case for case in cases if case.pattern is not None}
    texts = [f"namespace solution_{number} {{\n{case.source}}}\n" for number, case in enumerate(chosen.values())]
    cuda = "#include <torch/types.h>\n#include <cuda_runtime.h>\n" + "\n".join(texts)
    build = Build("all", (("main.cpp", MAIN), ("all.cu", cuda)))
    found = compilation.compile_text(build.text(), tmp_path, 90, twins=True)
    assert found["ok"], found["message"]
    (one,) = found["binaries"][0]["cubins"]
    assert len(one["kernels"]) >= len(chosen)
    assert one["fence_errors"] == {}
