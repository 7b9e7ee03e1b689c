"""Which folders a start removes."""

import os
import time
from pathlib import Path

import pytest

from services.dev.data_folder import ABANDONED_S, open_data_folder


@pytest.fixture(autouse=True)
def temporary(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that temporary ones are made in."""
    monkeypatch.setattr("tempfile.tempdir", str(short_dir))
    return short_dir


def aged(folder: Path) -> Path:
    before = time.time() - 2 * ABANDONED_S
    os.utime(folder, (before, before))
    return folder


def test_a_start_removes_a_temporary_folder_whose_process_was_killed(temporary: Path) -> None:
    killed = temporary / "penstock-dev-killed"
    killed.mkdir()
    (killed / ".temporary-lock").touch()
    aged(killed)
    open_data_folder("").close()
    assert not killed.exists()


def test_a_start_removes_no_data_folder_whatever_its_name_is(temporary: Path) -> None:
    data = temporary / "penstock-dev-orders"
    open_data_folder(str(data)).close()
    (data / "metadata").write_text("all that there is", encoding="utf-8")
    aged(data)
    open_data_folder("").close()
    assert (data / "metadata").read_text(encoding="utf-8") == "all that there is"


def test_a_start_leaves_the_temporary_folder_of_another_process_that_runs() -> None:
    running = open_data_folder("")
    aged(Path(running.path))
    open_data_folder("").close()
    assert Path(running.path).exists()
    running.close()
    assert not Path(running.path).exists()
