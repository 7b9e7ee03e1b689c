"""Appends to Penstock beside the same bytes written to the same file system without it: how much of a disk's rate arrives.

The raw side appends to one file for each partition by `pwritev`, as many batches at once as a connection has in flight, then
syncs: by `fdatasync` if there is one file, by one `syncfs` if there are several. A log cannot sync less often, if nothing is
acknowledged before it is on the disk.
"""

import ctypes
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.bench import frames, load
from tests.bench.cases import KIB, ROUND_BYTES, Case, Measured
from tests.bench.lean.cases import IN_FLIGHT, SIZES, produce_case
from tests.bench.sides import Side

DISK = "disk"
LIBC = ctypes.CDLL(None, use_errno=True)


class RawDisk(Side):
    """A folder in the place of a server."""

    def __post_init__(self) -> None:
        """There is nobody to ask."""


@contextmanager
def start_raw_disk(durability: str) -> Iterator[Side]:
    """On the file system where the other side keeps its logs. It knows one `durability`: synced."""
    assert durability == "synced"
    with tempfile.TemporaryDirectory(prefix="penstock-bench-disk-") as root:
        yield RawDisk(DISK, "", durability="synced", log_directory=Path(root))


def sync_all(descriptor: int) -> None:
    """syncfs: all that is dirty on the file system of that descriptor."""
    if LIBC.syncfs(descriptor):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def append_synced(paths: Sequence[Path], batch: bytes, at_once: int, seconds: float, bytes_max: int) -> load.Throughput:
    """Appends `at_once` batches to each file and syncs, until `seconds` or `bytes_max` have passed. A request is a batch."""
    descriptors = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in paths]
    sync = os.fdatasync if len(paths) == 1 else sync_all
    together, size, position = [batch] * at_once, at_once * len(batch), 0
    started = time.perf_counter()
    try:
        while True:
            for descriptor in descriptors:
                if (written := os.pwritev(descriptor, together, position)) != size:
                    raise load.BenchError(f"the disk took {written} of {size} bytes")
            sync(descriptors[0])
            position += size
            elapsed, done = time.perf_counter() - started, position * len(paths)
            if elapsed >= seconds or done >= bytes_max:
                return load.Throughput(done // len(batch), done, elapsed)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def append_case(name: str, size: int, connections: int) -> Case:
    """One partition for each connection. Its ratio is the share of the disk's rate that Penstock has."""
    base = produce_case(name, size, connections, acks=-1)

    def prepare(side: Side) -> object:
        if not isinstance(side, RawDisk):
            return base.prepare(side)
        return [side.log_directory / f"{name}-{partition}" for partition in range(connections)]

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        if not isinstance(side, RawDisk):
            return base.run(side, prepared, seconds)
        assert isinstance(prepared, list)
        batch, _ = frames.batch_of_about(size, 1000, time.time_ns() // 1_000_000)
        done = append_synced(prepared, batch, IN_FLIGHT, seconds, ROUND_BYTES)
        return Measured(done.requests_per_s if size <= 2 * KIB else done.megabytes_per_s, done.requests)

    def clean(side: Side, prepared: object) -> None:
        if isinstance(side, RawDisk):
            assert isinstance(prepared, list)
            for path in prepared:
                path.unlink()
        else:
            base.clean(side, prepared)

    how = "fdatasync" if connections == 1 else "syncfs"
    settings = f"{base.settings}; the disk: {IN_FLIGHT} batches to each of {connections} file(s) by pwritev, then one {how}"
    return replace(base, settings=settings, prepare=prepare, run=run, clean=clean)


def raw_disk_cases() -> list[Case]:
    return [
        append_case(f"disk-append-{label}-{connections}conn", size, connections)
        for label, size in SIZES.items()
        for connections in (1, 4)
    ]
