"""The file of a backup: what it may replace, and what is beside it afterwards."""

import os

import pytest

from services.controller.recovery import __main__ as recovery
from services.controller.recovery.backup_file import save
from services.controller.recovery.store_contents import RecoveryRefused


@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "a device, a pipe or a socket"), (os.mkdir, "a directory")])
def test_what_is_no_file_is_refused_before_etcd_is_asked(tmp_path, capsys, make, kind):
    path = tmp_path / "there"
    make(path)
    before = path.stat()
    assert recovery.main(["backup", "--etcd", "127.0.0.1:1", str(path)]) == 1
    assert capsys.readouterr().err == f"backup: {path} is {kind}; expected a file, or a path where nothing is\n"
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_backup_is_replaced_and_files_beside_it_stay(tmp_path):
    path, beside = tmp_path / "saved", tmp_path / "saved.tmp"
    path.write_bytes(b"old")
    beside.write_bytes(b"mine")
    save(str(path), b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"saved": b"new", "saved.tmp": b"mine"}


def test_a_secret_file_is_its_owners_alone_also_in_the_place_of_another(tmp_path):
    path = tmp_path / "saved"
    path.write_bytes(b"old")
    path.chmod(0o644)
    save(str(path), b"new", recovery.SECRET_MODE)
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    link = tmp_path / "latest"
    link.symlink_to("saved")
    save(str(link), b"new")
    assert link.is_symlink()
    assert (tmp_path / "saved").read_bytes() == b"new"


@pytest.mark.parametrize(("name", "reason"), [("folder", "Is a directory"), ("nowhere/saved", "No such file or directory")])
def test_a_failure_is_told_and_leaves_nothing(tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecoveryRefused, match=f"{name} cannot be written: {reason}"):
        save(str(tmp_path / name), b"new")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
