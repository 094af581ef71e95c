"""Folders go whole, whatever was left in them, or as far as a slice of time reaches."""

import contextlib
import os
import resource
import select
import subprocess
import sys

import pytest

from warpsmith.evaluator.sandbox import rmtree


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "left"
    made.mkdir()
    return made


def test_one_that_is_not_there_is_gone(tmp_path):
    assert rmtree.remove(tmp_path / "none")
    assert rmtree.remove(tmp_path / "none", 0.0)


def dig(folder, depth):
    """Make directories in one another, deeper than any path reaches."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def test_a_deep_one_needs_neither_stack_nor_descriptors(folder):
    dig(folder, 3000)
    used = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, hard))
    try:
        assert rmtree.remove(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not folder.exists()
    assert len(os.listdir("/proc/self/fd")) == used


def test_a_wide_one_with_trees_of_its_own(folder):
    for number in range(200):
        (folder / f"d{number}" / "a" / "b").mkdir(parents=True)
        (folder / f"d{number}" / "a" / "file").touch()
    assert rmtree.remove(folder)
    assert not folder.exists()


def test_names_that_are_wanted_may_be_taken(folder):
    for number in range(1, 20):
        (folder / f"moved-{number}" / "moved-1").mkdir(parents=True)
        (folder / f"moved-{number}" / "file").touch()
    for number in range(20, 40):
        (folder / f"moved-{number}").touch()
    assert rmtree.remove(folder)
    assert not folder.exists()


def closed_tree(folder):
    """As an ordinary user, since root is not kept out."""
    inner = folder / "a" / "b"
    (inner / "c").mkdir(parents=True)
    (inner / "file").touch()
    for path in (inner, folder / "a", folder):
        path.chmod(0)


def test_directories_closed_to_their_owner(folder, tmp_path):
    closed_tree(folder)
    if os.geteuid() != 0:
        assert rmtree.remove(folder)
    else:
        nobody = 65534
        for path in (tmp_path, folder, folder / "a", folder / "a" / "b", folder / "a" / "b" / "c"):
            os.chown(path, nobody, nobody)
        pid = os.fork()
        if pid == 0:
            here = os.open(tmp_path, os.O_RDONLY)
            os.fchdir(here)
            os.setgroups([])
            os.setgid(nobody)
            os.setuid(nobody)
            os._exit(0 if rmtree.remove(rmtree.Path("left")) else 1)
        assert os.waitpid(pid, 0)[1] == 0
    assert not folder.exists()


def test_links_are_removed_and_not_followed(folder, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data").touch()
    (folder / "to_directory").symlink_to(kept)
    (folder / "in").mkdir()
    (folder / "in" / "to_directory").symlink_to(kept)
    (folder / "to_nothing").symlink_to(tmp_path / "none")
    os.mkfifo(folder / "fifo")
    assert rmtree.remove(folder)
    assert (kept / "data").exists()


def test_a_folder_that_is_itself_a_link_is_refused(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data").touch()
    (tmp_path / "link").symlink_to(kept)
    with pytest.raises(NotADirectoryError):
        rmtree.remove(tmp_path / "link")
    assert (kept / "data").exists()


def test_names_that_are_no_text(folder):
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe")
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe/\xfd")
    with open(os.fsencode(folder) + b"/\xff\xfe/\xfd/\n\x80", "wb"):
        pass
    assert rmtree.remove(folder)
    assert not folder.exists()


def test_what_vanishes_meanwhile_is_gone(folder, monkeypatch):
    for number in range(3):
        (folder / f"d{number}" / "in").mkdir(parents=True)
        (folder / f"f{number}").touch()
    scandir = os.scandir

    def emptied_after_listing(directory):
        with scandir(directory) as found:
            entries = list(found)
        if entries:
            subprocess.run(["/bin/rm", "-rf", *folder.iterdir()], check=True)
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", emptied_after_listing)
    assert rmtree.remove(folder)
    assert not folder.exists()


def test_a_slice_ends_and_others_go_on_from_there(folder):
    for number in range(50):
        (folder / f"d{number}" / "in").mkdir(parents=True)
    assert not rmtree.remove(folder, 0.0)
    assert len(list(folder.iterdir())) == 50
    while not rmtree.remove(folder, 0.0005):
        pass
    assert not folder.exists()


def test_a_process_removes_what_it_is_given_and_goes_on_after_a_failure(folder, tmp_path, capfd):
    dig(folder, 1500)
    file = tmp_path / "file"
    file.touch()
    process = rmtree.start_removing([file, folder])
    assert process.wait(30) == 1
    assert not folder.exists()
    assert str(file) in capfd.readouterr().err
    assert rmtree.start_removing([tmp_path / "none"]).wait(30) == 0


def test_the_program_imports_the_standard_library_alone():
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print(*(n for n in sys.modules if 'warpsmith' in n))"
    command = [sys.executable, "-I", "-S", "-c", code, rmtree.__file__]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == ""


def test_a_backlog_removes_little_at_once_and_much_by_a_process(tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    dig(large, 3000)
    backlog = rmtree.Backlog()
    backlog.remove(small)
    assert backlog.begin() is None
    backlog.remove(large)
    watched = backlog.begin()
    assert watched is not None
    assert backlog.begin() is None
    assert select.select([watched], [], [], 30)[0]
    os.close(watched)
    backlog.end()
    assert backlog.begin() is None
    assert not list(tmp_path.iterdir())


def test_a_backlog_outlives_what_cannot_be_removed(tmp_path, capfd):
    file = tmp_path / "file"
    file.touch()
    backlog = rmtree.Backlog()
    backlog.remove(file)
    watched = backlog.begin()
    assert select.select([watched], [], [], 30)[0]
    os.close(watched)
    backlog.end()
    assert "by hand" in capfd.readouterr().err
    assert backlog.begin() is None
