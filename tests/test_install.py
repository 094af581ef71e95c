"""How the workspace is installed: which machines, which pins, and that every way gives the same."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tool(name, folder="tools"):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


install, lock = tool("install"), tool("lock")
PLACES = [(python, machine) for python in lock.PYTHONS for machine in lock.MACHINES]


UNFIT = [
    ("Darwin", "arm64", "", "macOS"),
    ("Windows", "AMD64", "", "Windows"),
    ("Linux", "riscv64", "glibc", "riscv64"),
    ("Linux", "x86_64", "", "glibc"),
]


@pytest.mark.parametrize(("system", "machine", "libc", "named"), UNFIT)
def test_a_machine_without_packages_is_refused_in_words(system, machine, libc, named):
    with pytest.raises(install.UnfitError, match=named):
        install.check_machine(system, machine, libc)


@pytest.mark.parametrize(("system", "machine", "libc", "named"), UNFIT)
def test_an_installer_hears_of_such_a_machine_before_it_resolves_anything(
    system, machine, libc, named, monkeypatch, tmp_path
):
    """The first thing that an installer asks of the evaluator's sources is its metadata."""
    monkeypatch.chdir(ROOT / "packages/evaluator")
    settings = tomllib.loads(Path("pyproject.toml").read_text())["build-system"]
    (folder,) = settings["backend-path"]
    backend = tool(settings["build-backend"], f"packages/evaluator/{folder}")
    machine_now = {"system": system, "machine": machine, "libc_ver": (libc, "")}
    for name, value in machine_now.items():
        monkeypatch.setattr(backend.platform, name, lambda value=value: value)
    for hook in ("get_requires_for_build_wheel", "prepare_metadata_for_build_wheel", "build_editable"):
        with pytest.raises(SystemExit, match=named):
            getattr(backend, hook)(*([] if hook.startswith("get") else [str(tmp_path)]))


@pytest.mark.parametrize(("system", "named"), [("Windows", "this is Windows"), ("Darwin", "this is macOS")])
def test_pip_prints_the_refusal_and_downloads_nothing(system, named, tmp_path):
    """The real pip, in processes in which Python's `platform` says that the machine is another."""
    mac = '"14.0", ("", "", ""), "arm64"'
    (tmp_path / "sitecustomize.py").write_text(
        f"import platform\nplatform.system = lambda: {system!r}\nplatform.mac_ver = lambda *_: ({mac})\n"
    )
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--target", tmp_path / "to"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [*pip, ROOT / "packages/evaluator"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert f"warpsmith-evaluator runs on Linux, and {named}" in ended.stdout + ended.stderr
    assert not (tmp_path / "to").exists()


@pytest.mark.long
def test_cibuildwheel_reads_its_settings_and_builds_for_linux_alone():
    command = [ROOT / ".venv/bin/uv", "tool", "run", "cibuildwheel", "packages/evaluator", "--print-build-identifiers"]
    for system, builds in (("linux", len(lock.PYTHONS)), ("macos", 0), ("windows", 0)):
        ended = subprocess.run([*command, "--platform", system], cwd=ROOT, capture_output=True, text=True, check=True)
        names = ended.stdout.split()
        assert len(names) == builds
        assert all(name.endswith("-manylinux_x86_64") for name in names)


def test_the_backend_makes_metadata_on_this_machine(tmp_path):
    """In a process of its own: it imports the standard library's distutils, which setuptools then refuses."""
    code = "import sys, warpsmith_build as it; print(it.prepare_metadata_for_build_wheel(sys.argv[1]))"
    folder = ROOT / "packages/evaluator"
    environment = {**os.environ, "PYTHONPATH": str(folder / "backend")}
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1].startswith("warpsmith_evaluator-")


def test_arm64_is_reported_as_untested(capsys):
    install.check_machine("Linux", "aarch64", "glibc")
    assert "no test of Warpsmith was ever run there" in capsys.readouterr().err
    install.check_machine("Linux", "x86_64", "glibc")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("release", "python"), [("bookworm", "3.11"), ("trixie", "3.13"), ("noble", "3.12")])
def test_a_python_that_the_release_has_is_advised(release, python):
    assert f"apt-get install python{python} " in install.python_advice(release)
    assert tuple(map(int, python.split("."))) in install.SUPPORTED
    assert "apt-get" not in install.python_advice("somewhere")


def test_every_way_of_installing_is_for_the_same_pythons():
    pythons = [f"{major}.{minor}" for major, minor in install.SUPPORTED]
    assert pythons == list(lock.PYTHONS)
    assert WORKSPACE["project"]["requires-python"] == f">={pythons[0]},<3.{int(pythons[-1][2:]) + 1}"


@settings(deadline=None)
@given(st.sets(st.sampled_from(PLACES), min_size=1))
def test_a_pins_marker_holds_just_where_the_pin_was_found(places):
    text = lock.marker(places, set(PLACES)).removeprefix(" ; ")
    for python, machine in PLACES:
        environment = {"python_version": python, "platform_machine": machine}
        assert (not text or Marker(text).evaluate(environment)) == ((python, machine) in places), text


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(PLACES), st.sets(st.sampled_from(["a==1", "a==2", "B_c==1", "b.a==3"]))))
def test_what_is_merged_comes_apart_again(found):
    found = {place: found.get(place, set()) for place in PLACES}
    lines = [Requirement(line) for line in lock.merged(found)]
    for (python, machine), pins in found.items():
        environment = {"python_version": python, "platform_machine": machine}
        there = [line for line in lines if line.marker is None or line.marker.evaluate(environment)]
        assert {f"{line.name}{line.specifier}" for line in there} == pins


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_a_lock_has_one_pin_a_name_wherever_it_is_installed(variant):
    lines = [Requirement(line) for line in (ROOT / f"requirements/{variant}.lock").read_text().splitlines()]
    for python, machine in PLACES:
        environment = {"python_version": python, "platform_machine": machine}
        names = [line.name for line in lines if line.marker is None or line.marker.evaluate(environment)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_a_lock_keeps_what_its_input_names(variant):
    wanted = re.findall(r"^[a-z].*==.*$", (ROOT / f"requirements/{variant}.in").read_text(), flags=re.MULTILINE)
    pins = (ROOT / f"requirements/{variant}.lock").read_text().splitlines()
    assert wanted
    assert set(wanted) <= set(pins)


def test_uv_sync_leaves_out_what_make_install_does():
    overrides = (ROOT / "requirements/overrides.txt").read_text().split("\n")
    assert WORKSPACE["tool"]["uv"]["override-dependencies"] == [line for line in overrides if line]


def test_the_cuda_group_takes_no_build_of_torch_for_cpus():
    """uv prefers `2.11.0+cpu`, which a page of CPU builds has, to the index's 2.11.0 unless a setting forbids it."""
    lock_text = (ROOT / "requirements/cuda.lock").read_text()
    (pin,) = re.findall(r"^torch==(\S+)", lock_text, flags=re.MULTILINE)
    assert WORKSPACE["tool"]["uv"]["constraint-dependencies"] == [f"torch != {pin}+cpu"]


def test_no_environment_can_hold_both_builds_of_vllm():
    conflicts = WORKSPACE["tool"]["uv"]["conflicts"]
    sides = [{"group": "{}"}, {"extra": "{}"}, *({"package": f"warpsmith-{p}", "extra": "{}"} for p in OF_TWO_BUILDS)]
    fill = [{v: {key: text.format(v) for key, text in side.items()} for v in ("cpu", "cuda")} for side in sides]
    assert all([one["cpu"], other["cuda"]] in conflicts for one in fill for other in fill)


OF_TWO_BUILDS = [
    package
    for package in ("records", "policy", "evaluator", "rollout", "trainer")
    if "cuda"
    in tomllib.loads((ROOT / f"packages/{package}/pyproject.toml").read_text())["project"].get(
        "optional-dependencies", {}
    )
]


def test_the_variant_is_chosen_by_name():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/install.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--variant {cpu,cuda}" in done.stdout
