"""Segment files have numbers by which callers on this host ask for them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from libs.commitlog.segments.segment import FileRegistry, SegmentFile
from tests.commitlog.harness import QuickFileSystem


def test_files_that_many_threads_open_have_numbers_of_their_own(tmp_path: Path) -> None:
    """A thread opens each log directory. Two files with one number would give a client another partition's bytes."""
    registry, fs = FileRegistry(), QuickFileSystem()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda number: SegmentFile(fs, f"{tmp_path}/{number}", 0, registry), range(4000)))
    finally:
        sys.setswitchinterval(interval)
    assert len({file.file_id for file in made}) == len(made)
    assert all(registry.get(file.file_id) is file for file in made)


def test_a_file_that_nobody_holds_or_that_was_removed_is_not_found(tmp_path: Path) -> None:
    registry, fs = FileRegistry(), QuickFileSystem()
    dropped = SegmentFile(fs, f"{tmp_path}/a", 0, registry)
    number = dropped.file_id
    del dropped
    assert registry.get(number) is None
    removed = SegmentFile(fs, f"{tmp_path}/b", 0, registry)
    registry.remove(removed)
    registry.remove(removed)
    assert registry.get(removed.file_id) is None
