"""No event loop waits for a disk: what the page cache lacks of a file is read by a thread, or is the leader's to look up."""

import mmap
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from libs.rpc.files.page_cache import has_all_pages, warm
from libs.rpc.files.passed_files import OsPassedFiles
from services.gateway.peers.file_descriptors import OpenedFile
from services.gateway.shortcuts import sequential_fetch_cache
from tests.gateway.backlogs import batch_at, fill, whole
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.kafka_client import fetch_body


class LoopReads:
    """The reads of the event loop, which is the main thread, that may have waited for a disk: plain ones, and those of pages that
    the page cache lacks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, below: Path) -> None:
        self.waited: list[str] = []
        self._below = f"{below}/"
        pread, preadv, sendfile = os.pread, os.preadv, os.sendfile

        def noted_pread(fd: int, length: int, position: int) -> bytes:
            self._note("pread", fd)
            return pread(fd, length, position)

        def noted_preadv(fd: int, buffers: Sequence[Any], position: int, flags: int = 0) -> int:
            if not flags & os.RWF_NOWAIT:
                self._note("preadv", fd)
            return preadv(fd, buffers, position, flags)

        def noted_sendfile(out: int, source: int, position: int, length: int) -> int:
            if length and has_all_pages(source, position, length) is False:
                self._note("sendfile", source)
            return sendfile(out, source, position, length)

        monkeypatch.setattr(os, "pread", noted_pread)
        monkeypatch.setattr(os, "preadv", noted_preadv)
        monkeypatch.setattr(os, "sendfile", noted_sendfile)

    def _note(self, call: str, fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.startswith(self._below) and threading.current_thread() is threading.main_thread():
            self.waited.append(f"{call} of {path}")


def evict(path: Path, start: int = 0, length: int = 0) -> None:
    """Evicts pages that a file system can evict. `length` 0: to the end."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_DONTNEED)
    gone = has_all_pages(descriptor, start, length or os.path.getsize(path)) is False
    os.close(descriptor)
    if not gone:
        pytest.skip("a file system or a kernel that does not evict what it is asked to")


@pytest.mark.parametrize("sendfile_bytes_min", [0, 1 << 30], ids=["sendfile", "pread"])
async def test_a_consumer_of_a_cold_backlog_makes_threads_wait_and_never_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, sendfile_bytes_min: int
) -> None:
    await rig.start(sendfile_bytes_min=sendfile_bytes_min)
    written = fill(rig, 60)
    path = rig.nodes[1].file
    assert path is not None
    client = await rig.client(1)
    reads = LoopReads(monkeypatch, rig.directory)
    offset, records = 0, b""
    while offset < 120:
        evict(path)
        _, (fetched,) = await client.fetch(12, fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=2600))
        batches, offset = whole(fetched.records)
        records += batches
    assert records == b"".join(written)
    assert reads.waited == []


async def test_a_mapping_with_a_page_that_is_not_there_is_not_touched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.start(sendfile_bytes_min=0)
    fill(rig, 60)
    mapped: list[int] = []

    def end_in_file(file: OpenedFile, start: int, length: int) -> tuple[int, int] | None:
        mapped.append(start)
        return real(file, start, length)

    real = sequential_fetch_cache.end_in_file
    monkeypatch.setattr(sequential_fetch_cache, "end_in_file", end_in_file)
    client = await rig.client(1)
    offset = 0

    async def fetch_next() -> None:
        nonlocal offset
        _, (fetched,) = await client.fetch(12, fetch_body(12, [(TOPIC, [(0, offset)])], max_bytes=2600))
        _, offset = whole(fetched.records)

    while not mapped:
        await fetch_next()
    seen = list(mapped)
    monkeypatch.setattr(OpenedFile, "is_cached", lambda *_: False)
    await fetch_next()
    assert mapped == seen


def test_a_file_with_a_page_that_is_not_there_is_not_cached_and_asking_does_not_read_it(tmp_path: Path) -> None:
    """Its ends are cached, and so is each page that is looked at between."""
    path = tmp_path / "log"
    content = b"".join(batch_at(2 * number) for number in range(40))
    with path.open("wb", buffering=0) as file:
        for position in range(0, len(content), mmap.PAGESIZE):  # what is written together is evicted together
            file.write(content[position : position + mmap.PAGESIZE])
    opened = OpenedFile(os.open(path, os.O_RDONLY), OsPassedFiles(), lambda: None)
    evict(path, 3 * mmap.PAGESIZE, 3 * mmap.PAGESIZE)
    assert not opened.is_cached(0, len(content))
    assert not has_all_pages(opened.descriptor, 3 * mmap.PAGESIZE, 3 * mmap.PAGESIZE), "the loop has read it"
    warm(opened.descriptor, 0, len(content))
    assert opened.is_cached(0, len(content))
    assert sequential_fetch_cache.end_in_file(opened, 0, len(content)) == (80, len(content))
    opened.evict()
