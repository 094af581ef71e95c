"""Parts by entry point: found, listed without import, suggested, and every way to be unusable named."""

import subprocess
import sys

import pytest

from warpsmith.records import registry
from warpsmith.records.registry import (
    BrokenEntryPointError,
    DuplicateNameError,
    Registry,
    UnknownNameError,
)

GROUP = "warpsmith.tests.shapes"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution with one module and some entry points on the path."""

    def make(distribution, source, **entry_points):
        place = tmp_path / distribution
        module = f"{distribution.replace('-', '_')}_parts"
        metadata = place / f"{distribution.replace('-', '_')}-1.2.dist-info"
        metadata.mkdir(parents=True)
        (place / f"{module}.py").write_text(source)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = [f"{name} = {module}:{value}" for name, value in entry_points.items()]
        (metadata / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")
        monkeypatch.syspath_prepend(place)
        return module

    yield make
    for name in [name for name in sys.modules if name.endswith("_parts")]:
        del sys.modules[name]


def test_a_part_is_found_by_its_name_and_nothing_else_is_imported(install):
    round_ = install("round-shapes", "circle = 'a circle'", circle="circle")
    square = install("square-shapes", "square = 'a square'", square="square")
    shapes = Registry(GROUP, "shape")
    assert shapes.names() == ("circle", "square")
    assert shapes.check_name("circle") == "circle"
    assert shapes.provider("circle") == "round-shapes 1.2"
    assert not {round_, square} & set(sys.modules)
    assert shapes.get("square") == "a square"
    assert round_ not in sys.modules


def test_an_unknown_name_lists_what_there_is_and_suggests_the_closest(install):
    install("round-shapes", "circle = disc = 1", circle="circle", disc="disc")
    shapes = Registry(GROUP, "shape")
    for ask in (shapes.get, shapes.check_name, shapes.provider):
        with pytest.raises(UnknownNameError, match=r"no shape `circel`; installed are circle, disc\.") as caught:
            ask("circel")
        assert caught.value.remedy == "Did you mean `circle`?"
    with pytest.raises(UnknownNameError, match="Choose one of them"):
        shapes.get("zzz")


def test_an_empty_group_says_that_metadata_is_missing():
    with pytest.raises(UnknownNameError, match=f"no installed package has entry points in `{GROUP}`"):
        Registry(GROUP, "shape").get("circle")


def test_two_parts_of_one_name_name_both_packages(install):
    install("round-shapes", "circle = 1", circle="circle")
    install("other-shapes", "mine = 2", circle="mine")
    shapes = Registry(GROUP, "shape")
    for ask in (shapes.names, lambda: shapes.get("circle")):
        with pytest.raises(DuplicateNameError) as caught:
            ask()
        assert "other-shapes 1.2 (other_shapes_parts:mine)" in str(caught.value)
        assert "round-shapes 1.2 (round_shapes_parts:circle)" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("circle = 1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('bye')", "SystemExit: bye"),
        ("disc = 1", "AttributeError: module 'round_shapes_parts' has no attribute 'circle'"),
    ],
)
def test_a_part_that_cannot_be_imported_names_its_package_and_the_error(install, source, message):
    install("round-shapes", source, circle="circle")
    with pytest.raises(BrokenEntryPointError) as caught:
        Registry(GROUP, "shape").get("circle")
    assert "The shape `circle` of round-shapes 1.2 cannot be imported from round_shapes_parts:circle" in str(
        caught.value
    )
    assert message in str(caught.value)


def test_a_part_of_the_wrong_form_is_refused_with_what_is_missing(install):
    install("round-shapes", "circle = 3", circle="circle")
    shapes = Registry(GROUP, "shape", check=lambda part: "" if callable(part) else "is not callable")
    with pytest.raises(BrokenEntryPointError, match=r"round_shapes_parts:circle is not callable\."):
        shapes.get("circle")


def test_a_package_that_is_installed_later_is_found(install):
    shapes = Registry(GROUP, "shape")
    assert shapes.names() == ()
    install("round-shapes", "circle = 1", circle="circle")
    assert shapes.get("circle") == 1


def test_importing_the_registry_costs_no_pyarrow():
    code = f"import sys, {registry.__name__}; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
