"""Folders of processes that were killed are swept; all others are left alone."""

import os
import select
import subprocess
import sys

import pytest

from warpsmith.evaluator.sandbox import temp_dirs


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_in_use_stays_and_one_let_go_of_is_swept():
    used, left = temp_dirs.make(), temp_dirs.make()
    (left.path / "scratch").mkdir()
    (left.path / "scratch" / "file").touch()
    temp_dirs.sweep()
    assert used.path.exists()
    assert left.path.exists()
    os.close(left.lock_fd)
    temp_dirs.sweep()
    assert used.path.exists()
    assert not left.path.exists()
    used.remove()
    assert not used.path.exists()
    used.remove()


def test_a_killed_process_keeps_no_folder_and_a_copy_of_its_lock_does(temporary):
    code = (
        "import sys, subprocess, tempfile\ntempfile.tempdir = sys.argv[1]\n"
        "from warpsmith.evaluator.sandbox import temp_dirs\nfolder = temp_dirs.make()\n"
        "heir = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE, pass_fds=[folder.lock_fd])\n"
        "print(heir.pid, folder.path, flush=True)\nsys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    heir, path = owner.stdout.readline().split()
    watched = os.pidfd_open(int(heir))
    temp_dirs.sweep()
    assert [str(found) for found in temporary.iterdir()] == [path]
    owner.kill()
    owner.communicate()
    assert select.select([watched], [], [], 10)[0], "cat outlives the end of its input"
    os.close(watched)
    temp_dirs.sweep()
    assert not list(temporary.iterdir())


def test_what_is_not_from_here_is_left_alone(temporary):
    named_alike = temporary / f"{temp_dirs.PREFIX}results"
    named_alike.mkdir()
    (named_alike / "data").touch()
    (temporary / f"{temp_dirs.PREFIX}file").touch()
    (temporary / f"{temp_dirs.PREFIX}link").symlink_to(named_alike)
    (temporary / "warpsmith-other").mkdir()
    never_locked = temporary / f"{temp_dirs.PREFIX}empty"
    never_locked.mkdir()
    temp_dirs.sweep()
    left = {path.name.removeprefix(temp_dirs.PREFIX) for path in temporary.iterdir()}
    assert left == {"results", "file", "link", "warpsmith-other"}
    assert (named_alike / "data").exists()


def test_a_lock_that_is_a_link_is_not_followed(temporary):
    folder = temporary / f"{temp_dirs.PREFIX}linked"
    folder.mkdir()
    (temporary / "target").touch()
    (folder / temp_dirs.LOCK).symlink_to(temporary / "target")
    temp_dirs.sweep()
    assert folder.exists()
