"""What each worker role can see and use: the policy that the compiled extension enforces."""

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warpsmith.evaluator._native import Bind, Policy
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.kinds import DeviceKind, Nodes, Role
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.sandbox import torch_compile

OFF_DEVICE: Final = frozenset({"compile", "host"})
"""Roles that never see a GPU."""

SYSTEM_LIBRARIES: Final = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
PACKAGES: Final = ("torch", "triton", "numpy")
"""What workers import; a `.pth` file can bring it from outside Python's own folders."""
SINGLE_THREADED: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}
# Added to what a worker inherits; far more than honest workers map, with at most 128 MiB of page tables.
ADDRESS_SPACE_BYTES: Final = 64 << 30
DETACHED_DATA_BYTES: Final = 48 << 30
"""What host code without a device can map where there is one: its tensors are as large as on the device, but unread.

Judge and cgroup bound what it uses; see `processes/memory_watch.py`.
"""
LANG: Final = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
OF_ROLE: Final[dict[Role, dict[str, str]]] = {
    # ptxas runs for milliseconds and spends them on page faults; huge pages for its heap help, if the kernel has any.
    "compile": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}


def policy_for(
    role: Role,
    config: EvaluatorConfig,
    scratch: Path | None,
    programs: Sequence[Path],
    libraries: Sequence[Path],
    *,
    nodes: Nodes | None = None,
) -> Policy:
    """Return the policy of one worker.

    Args:
        role: `compile` may execute the language's programs, `baseline` those that torch.compile runs, no other any.
        config: limits and the weakest tier that is accepted.
        scratch: an empty directory for tiers without a mount namespace; None where the sandbox mounts its own.
        programs: of the kernel language, as its assembler.
        libraries: what `library_paths` returned.
        nodes: of the device; None where workers need none.
    """
    nodes = None if role in OFF_DEVICE else nodes
    device, language = config.device_kind, language_of(config.language)
    programs, folders = _run_and_read(role, config, programs)
    libraries = [*libraries, *_of_compiler(folders, libraries)]
    on_gpu = nodes is not None
    return Policy(
        binds=[Bind(str(path), str(path)) for path in libraries] + (_device_binds(nodes) if nodes else []),
        exec_paths=[str(program) for program in programs],
        environment=SINGLE_THREADED | LANG | OF_ROLE.get(role, {}) | _environment(role, config, nodes),
        # CUDA makes shared memory, and names its threads under /proc.
        shared_memory=on_gpu,
        dumpable=on_gpu,
        scratch_path=str(scratch) if scratch else "",
        # They load host code, which the compile worker or compilers of their own made; they can map executable memory
        # of their own anyway.
        scratch_executable=role == "baseline" or (role in {"host", "candidate"} and language.builds_ahead),
        scratch_bytes=config.scratch_bytes,
        memory_bytes=config.memory_bytes,
        data_bytes=DETACHED_DATA_BYTES if role == "host" and device.shares_memory else 0,
        # CUDA reserves an address space larger than any useful bound.
        address_space_bytes=0 if on_gpu else config.memory_bytes + ADDRESS_SPACE_BYTES,
        processes=config.processes,
        cpu_seconds=_cpu_seconds(role, config),
        strongest_tier=config.strongest_isolation,
        # Where this machine gives namespaces, a worker that cannot enter them is an error and no weaker worker.
        minimum_tier="namespaces" if scratch is None else config.minimum_isolation,
    )


def _run_and_read(
    role: Role, config: EvaluatorConfig, programs: Sequence[Path]
) -> tuple[Sequence[Path], Sequence[Path]]:
    """Return the programs that a worker may execute, and what these read besides the libraries."""
    match role:
        case "compile":
            return programs, language_of(config.language).folders()
        case "baseline":
            return torch_compile.programs(config.target_arch), torch_compile.folders()
        case _:
            return (), ()


def _of_compiler(wanted: Sequence[Path], libraries: Sequence[Path]) -> list[Path]:
    """Return what a language's compilers read, outermost folders only, and nothing that lies below `libraries`."""
    kept: list[Path] = []
    for path in sorted(set(wanted)):
        if not any(path.is_relative_to(other) for other in (*libraries, *kept)):
            kept.append(path)
    return kept


def _cpu_seconds(role: Role, config: EvaluatorConfig) -> int:
    """Bound a worker's CPU time above its deadline; a reference worker serves many evaluations of its problem."""
    deadlines = {"reference": 3600.0, "baseline": 3600.0, "compile": 2 * config.compile_timeout_s}
    return int(deadlines.get(role, 2 * config.timeout_s)) + 60


def _environment(role: Role, config: EvaluatorConfig, nodes: Nodes | None) -> dict[str, str]:
    """Return what the kernel language and the device need in a worker's environment."""
    device, language = config.device_kind, language_of(config.language)
    found = language.environment(interpreting=nodes is None and device.interprets and role == "candidate")
    if role == "baseline":
        found = found | torch_compile.of_worker()
    return found if nodes is None else found | device.environment(nodes.name)


def _device_binds(nodes: Nodes) -> list[Bind]:
    """Return the nodes of one device, and what of /sys its driver reads of it."""
    writable = [path for path in (*nodes.shared, *nodes.own) if Path(path).exists()]
    facts = [path for path in nodes.facts if Path(path).exists()]
    return [*(Bind(path, path, True) for path in writable), *(Bind(path, path) for path in facts)]


def library_paths(device: DeviceKind) -> list[Path]:
    """Return the host paths that Python, its packages and the system's libraries lie under: none inside another."""
    prefixes = [sys.prefix, sys.base_prefix, *(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib"))]
    folders = (*SYSTEM_LIBRARIES, *_below_root(prefixes), *_package_folders(), *device.library_folders())
    wanted = [Path(path) for path in folders]
    kept: list[Path] = []
    for path in sorted({path for path in wanted if path.exists() or path.is_symlink()}):
        if not any(path.is_relative_to(other) for other in kept if not other.is_symlink()):
            kept.append(path)
    return kept


def _package_folders() -> Iterator[str]:
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            yield str(Path(spec.origin).parent.parent)


def _below_root(prefixes: list[str]) -> list[str]:
    """Narrow prefixes such as /usr to their libraries: a worker needs nothing else of them."""
    return [f"{prefix}/lib" if prefix in {"/usr", "/usr/local"} else prefix for prefix in prefixes]
