"""What the workers of an evaluator on a GPU may see and use, beside one without; no GPU takes part."""

from pathlib import Path

import pytest
import torch
import triton

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.evaluator.devices import cuda_nodes
from warpsmith.evaluator.devices.cuda_kind import CUDA
from warpsmith.evaluator.devices.cuda_nodes import nodes_of
from warpsmith.evaluator.devices.host_kind import HOST
from warpsmith.evaluator.sandbox import policies
from warpsmith.evaluator.sandbox.policies import library_paths, policy_for

ON_CPU = EvaluatorConfig(slots=1)
ON_GPU = EvaluatorConfig(slots=1, device="cuda")
ON_DEVICE = ("reference", "candidate")
ROLES = (*ON_DEVICE, "compile")
PTXAS = Path("/opt/ptxas")
PROGRAMS = (PTXAS,)


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """A host's /dev and /sys with three GPUs and everything that a driver puts beside them."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    names = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia10", "nvidia2", "nvidia0", "null"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "nvidia-caps").mkdir()
    (tmp_path / "facts").mkdir()
    moved = tuple(str(tmp_path / Path(path).name) for path in cuda_nodes.NVIDIA_DEVICES)
    monkeypatch.setattr(cuda_nodes, "DEVICES", tmp_path)
    monkeypatch.setattr(cuda_nodes, "NVIDIA_DEVICES", moved)
    monkeypatch.setattr(cuda_nodes, "DEVICE_FACTS", (str(tmp_path / "facts"), str(tmp_path / "absent")))
    monkeypatch.setattr(cuda_nodes, "GPU_FACTS", tmp_path / "gpus")
    return tmp_path


def policy(role, config, libraries=(), uuid=""):
    return policy_for(role, config, None, PROGRAMS, libraries, nodes=config.device_kind.nodes(config.gpu, uuid))


def on(gpu):
    return ON_GPU.model_copy(update={"gpu": gpu})


@pytest.mark.parametrize("role", ON_DEVICE)
@pytest.mark.parametrize(("gpu", "node"), [(0, "nvidia0"), (1, "nvidia2"), (2, "nvidia10")])
def test_a_worker_sees_the_nodes_of_its_own_gpu_alone(host, role, gpu, node):
    """In a container that was given some of a host's GPUs their nodes keep the host's numbers."""
    binds = policy(role, on(gpu)).binds
    expected = ["nvidiactl", "nvidia-uvm", "nvidia-modeset", node]
    assert {bind.source for bind in binds if bind.writable} == {str(host / name) for name in expected}
    assert [bind.source for bind in binds if not bind.writable] == [str(host / "facts")]
    assert all(bind.source == bind.target for bind in binds)


def tell_of(host, **minors):
    """Let the driver tell the minor number of each GPU, by UUID."""
    for place, (uuid, minor) in enumerate(minors.items()):
        folder = host / "gpus" / f"0000:0{place}:00.0"
        folder.mkdir(parents=True)
        information = f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\nIBM\n"
        (folder / "information").write_text(information)


@pytest.mark.parametrize("role", ON_DEVICE)
@pytest.mark.parametrize(("uuid", "node"), [("one", "nvidia10"), ("other", "nvidia0"), ("unknown", "nvidia2")])
def test_a_gpu_goes_by_its_uuid_where_the_driver_tells_it(host, role, uuid, node):
    """A worker can open one node alone, and the driver counts what can be opened: no number means anything there."""
    tell_of(host, one=10, other=0)
    found = policy(role, on(1), uuid=uuid)
    nodes = {Path(bind.source).name for bind in found.binds}
    assert nodes & {"nvidia0", "nvidia2", "nvidia10"} == {node}
    assert found.environment["CUDA_VISIBLE_DEVICES"] == uuid


def test_the_only_gpu_goes_by_its_number(host):
    """So does a part of it under MIG, which has a UUID of another kind."""
    for name in ("nvidia2", "nvidia10"):
        (host / name).unlink()
    tell_of(host, one=0)
    for uuid in ("one", "part", ""):
        found = nodes_of(0, uuid)
        assert (found.name, found.own) == ("0", (str(host / "nvidia0"),))


def test_facts_that_cannot_be_read_are_passed_over(host):
    (host / "gpus/one/information").mkdir(parents=True)
    found = nodes_of(1, "other")
    assert (found.name, found.own) == ("other", (str(host / "nvidia2"),))


def test_a_gpu_that_is_not_there_brings_no_other(host):
    names = {Path(bind.source).name for bind in policy("candidate", on(3)).binds}
    assert not names & {"nvidia0", "nvidia2", "nvidia10"}


def test_a_host_without_a_driver_has_nothing_to_see(host, monkeypatch):
    empty = host / "empty"
    empty.mkdir()
    monkeypatch.setattr(cuda_nodes, "DEVICES", empty)
    monkeypatch.setattr(cuda_nodes, "NVIDIA_DEVICES", (str(empty / "nvidiactl"),))
    monkeypatch.setattr(cuda_nodes, "DEVICE_FACTS", ())
    assert policy("candidate", ON_GPU).binds == []


def test_libraries_are_seen_by_all_and_changed_by_none(host):
    for role in ROLES:
        binds = policy(role, ON_GPU, [Path("/usr/lib")]).binds
        assert [bind.writable for bind in binds if bind.source == "/usr/lib"] == [False]


@pytest.mark.parametrize("role", ON_DEVICE)
def test_cuda_has_its_address_space_and_its_shared_memory(role):
    found, without = policy(role, ON_GPU), policy(role, ON_CPU)
    assert (found.address_space_bytes, found.shared_memory, found.dumpable) == (0, True, True)
    assert without.address_space_bytes == ON_CPU.memory_bytes + policies.ADDRESS_SPACE_BYTES
    assert (without.shared_memory, without.dumpable, without.binds) == (False, False, [])
    # Whatever else bounds a worker bounds it on a GPU as well.
    for limit in ("memory_bytes", "processes", "open_files", "file_bytes", "cpu_seconds", "scratch_bytes"):
        assert getattr(found, limit) == getattr(without, limit)


def test_host_code_maps_tensors_as_large_as_the_devices_where_somebody_polls():
    sizes = {role: policy(role, ON_GPU).data_bytes for role in (*ROLES, "host")}
    assert {role for role, size in sizes.items() if size} == {"host"}
    assert policy("host", ON_CPU).data_bytes == 0


@pytest.mark.parametrize("role", ON_DEVICE)
def test_nothing_is_executed_beside_a_gpu(role):
    assert policy(role, ON_GPU).exec_paths == []


def test_the_compile_worker_has_nothing_of_the_device():
    """It is the same worker with a GPU and without."""
    found, without = policy("compile", ON_GPU), policy("compile", ON_CPU)
    for name in ("binds", "environment", "exec_paths", "shared_memory", "dumpable", "address_space_bytes"):
        assert getattr(found, name) == getattr(without, name), name
    assert found.binds == []
    assert found.exec_paths == [str(PTXAS)]
    assert not any("CUDA" in name for name in found.environment)


@pytest.mark.parametrize("role", ON_DEVICE)
def test_the_driver_is_shown_which_gpu_it_has(role, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    monkeypatch.setenv("SECRET", "not for workers")
    environment = policy(role, on(2)).environment
    assert environment["CUDA_VISIBLE_DEVICES"] == "2"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "TRITON_INTERPRET" not in environment
    assert not {"SECRET", "LD_LIBRARY_PATH"} & environment.keys()


def test_without_a_gpu_candidates_are_interpreted_and_see_none():
    environments = {role: policy(role, ON_CPU).environment for role in ROLES}
    assert [role for role in ROLES if "TRITON_INTERPRET" in environments[role]] == ["candidate"]
    assert not any("CUDA_VISIBLE_DEVICES" in environment for environment in environments.values())


def test_libraries_of_the_driver_are_found_where_the_host_finds_them(host, monkeypatch):
    driver, inside = host / "driver", host / "driver" / "lib64"
    inside.mkdir(parents=True)
    without = library_paths(CUDA)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{driver}:{inside}:{host / 'absent'}::/:.:relative")
    assert set(library_paths(CUDA)) - set(without) == {driver}
    assert driver not in library_paths(HOST)
    assert policy("candidate", ON_GPU).environment["LD_LIBRARY_PATH"].startswith(str(driver))


def test_no_path_that_workers_see_holds_another():
    for device in (HOST, CUDA):
        paths = library_paths(device)
        assert len(paths) == len(set(paths))
        directories = [path for path in paths if not path.is_symlink()]
        assert not any(one.is_relative_to(other) for one in paths for other in directories if one != other)
        assert Path("/") not in paths


def test_packages_outside_of_pythons_own_folders_are_seen(host, monkeypatch):
    """Python takes them from a `.pth` file."""
    monkeypatch.setattr(policies.sys, "prefix", str(host))
    monkeypatch.setattr(policies.sys, "base_prefix", str(host))
    monkeypatch.setattr(policies.sysconfig, "get_path", lambda name: str(host))
    paths = library_paths(HOST)
    for package in (torch, triton):
        assert any(Path(package.__file__).is_relative_to(path) for path in paths)


def test_where_workers_get_namespaces_none_gets_less(host):
    assert policy("compile", ON_CPU).minimum_tier == "namespaces"
    weaker = policy_for("compile", ON_CPU, host, PROGRAMS, ())
    assert weaker.minimum_tier == ON_CPU.minimum_isolation
