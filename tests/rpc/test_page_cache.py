"""The page cache is asked, and never guessed at: a loop that sends a range waits for none of its pages."""

import os
from pathlib import Path

import pytest

from libs.rpc.files.page_cache import has_all_pages, is_cached, warm

PIECE = 1 << 18


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    for position in range(0, 4 * PIECE, 4096):  # page by page: the kernel evicts what was written together only together
        os.pwrite(descriptor, os.urandom(4096), position)
    os.fsync(descriptor)
    if has_all_pages(descriptor, 0, 4 * PIECE) is None:
        pytest.skip("a kernel before 6.5")
    return descriptor


def test_a_range_is_cached_only_with_all_that_lies_between_its_ends(descriptor: int) -> None:
    warm(descriptor, 0, 4 * PIECE)
    assert is_cached(descriptor, 0, 4 * PIECE)
    # From one look to the next: neither end of such a step is evicted.
    os.posix_fadvise(descriptor, 4096, 131_072 - 8192, os.POSIX_FADV_DONTNEED)
    if has_all_pages(descriptor, 4096, 131_072 - 8192):
        pytest.skip("a file system that evicts no part of a file")
    assert not is_cached(descriptor, 0, PIECE)
    assert is_cached(descriptor, 2 * PIECE, PIECE)
    warm(descriptor, 0, PIECE)
    assert is_cached(descriptor, 0, PIECE)
    os.close(descriptor)


def test_a_page_of_which_a_part_is_asked_for_counts(descriptor: int) -> None:
    warm(descriptor, 0, 4 * PIECE)
    assert has_all_pages(descriptor, 4095, 2)
    assert is_cached(descriptor, 4 * PIECE - 1, 1)
    os.close(descriptor)
