"""The identity of the page cache behind a path, as this machine's kernel gives it."""

import os
from pathlib import Path

from libs.runtime.identity import boot_id
from libs.runtime.page_caches import disk_id, page_cache_id


def test_one_file_system_has_one_page_cache_whatever_exists_of_the_path_yet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    here = page_cache_id(str(tmp_path))
    assert here.startswith(boot_id())
    assert {page_cache_id(str(tmp_path / "a")), page_cache_id(str(tmp_path / "later" / "still"))} == {here}


def test_another_file_system_has_another_one() -> None:
    shared, processes = page_cache_id("/dev/shm"), page_cache_id("/proc")
    assert shared != processes or not shared, "an older kernel tells neither"


def test_a_disk_that_was_attached_again_has_another_one_under_the_same_number(tmp_path: Path) -> None:
    """A disk 8:0 with a partition 8:1, as /sys shows them."""
    disk, disks = tmp_path / "sda", tmp_path / "block"
    (disk / "sda1").mkdir(parents=True)
    disks.mkdir()
    (disks / "8:0").symlink_to(disk)
    (disks / "8:1").symlink_to(disk / "sda1")
    assert disk_id(os.makedev(8, 1), disks) == ""
    (disk / "diskseq").write_text("9\n", encoding="utf-8")
    assert disk_id(os.makedev(8, 0), disks) == "disk 8:0 9"
    assert disk_id(os.makedev(8, 1), disks) == "disk 8:1 9"
    (disk / "diskseq").write_text("10\n", encoding="utf-8")
    assert disk_id(os.makedev(8, 1), disks) == "disk 8:1 10"
    assert disk_id(os.makedev(0, 42), disks) == ""
