"""Cases of the storage engine: acknowledged from the disk, and reads at random places of a large partition."""

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from libs.commitlog.model.config import LogConfig
from tests.bench import frames, load
from tests.bench.cases import KIB, Case, Filled, Measured, Topic, produce_case, unique
from tests.bench.log_files import share_log, write_log
from tests.bench.sides import Side

LARGE_BYTES = 10 * 1024**3
PLACES = 20_000
FETCH_BYTES = 64 * KIB


def synced_cases() -> list[Case]:
    """Both sides acknowledge only what is on disk: Penstock's `synced`, Kafka's `flush.messages=1`."""
    return [
        produce_case(f"synced-1KB-{connections}conn", KIB, connections, acks=-1, mark="≥ 3.0" if connections >= 4 else "")
        for connections in (1, 4, 16)
    ]


def random_read_cases(log_bytes: int = LARGE_BYTES) -> list[Case]:
    """One partition, filled once per side and shared by both cases."""
    filled = _LargePartition(log_bytes)
    gib = f"{log_bytes / 1024**3:g} GiB"
    return [
        Case(
            name="random-fetch-by-offset",
            unit="requests/s",
            higher_is_better=True,
            settings=f"raw Fetch of {FETCH_BYTES} B at random offsets of one partition of {gib}, one in flight, one connection",
            prepare=filled.prepare_fetches,
            run=_fetch,
            clean=filled.keep,
        ),
        Case(
            name="random-list-offsets-by-timestamp",
            unit="requests/s",
            higher_is_better=True,
            settings=f"raw ListOffsets for random timestamps in one partition of {gib}, one in flight, one connection",
            prepare=filled.prepare_lookups,
            run=_look_up,
            clean=filled.delete,
        ),
    ]


def _fetch(side: Side, prepared: object, seconds: float) -> Measured:
    assert isinstance(prepared, Filled)
    position = frames.fetch_error_position(prepared.name)
    found = load.fetch(prepared.targets, position, prepared.offsets, FETCH_BYTES, seconds)
    return Measured(found.requests_per_s, found.requests)


def _look_up(side: Side, prepared: object, seconds: float) -> Measured:
    assert isinstance(prepared, Topic)
    [(address, _)] = prepared.targets
    name, sock = prepared.name, load.connect(address)
    position = frames.list_offsets_error_position(name)
    asked = [frames.list_offsets_frame(name, 0, timestamp) for timestamp in prepared.timestamps]
    done, started = 0, time.perf_counter()
    try:
        while time.perf_counter() - started < seconds:
            sock.sendall(asked[done % len(asked)])
            load.check_answer(load.read_frame(sock), position)
            done += 1
    finally:
        sock.close()
    return Measured(done / (time.perf_counter() - started), done)


class _LargePartition:
    """Batches of 16 KiB whose timestamps rise by 10 ms each: written when a side first asks, and given to both as it is."""

    def __init__(self, log_bytes: int) -> None:
        batch, self._records_each = frames.batch_of_about(16 * KIB, 1000, 0)
        self._batch = bytearray(batch)
        self._batches = log_bytes // len(batch)
        self._records = self._batches * self._records_each
        self._first_ms = time.time_ns() // 1_000_000 - 10 * self._batches
        self._topics: dict[str, str] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="penstock-bench-log-")
        self._written: Path | None = None

    def _fill(self, side: Side) -> str:
        """The topic."""
        if side.name in self._topics:
            return self._topics[side.name]
        topic = self._topics[side.name] = unique("large")
        side.create_topic(topic, 1, {"retention.ms": "-1"})
        self._await_leader(side, topic)  # then it is on the disk, too
        with side.stopped():
            share_log(self._log(), side.log_directory / f"{topic}-0", with_sidecars=side.name == "penstock")
        self._await_leader(side, topic)
        return topic

    def _log(self) -> Path:
        if self._written is None:
            self._written = Path(self._scratch.name)
            end = write_log(self._written, self._rising(), LogConfig())
            assert end == self._records
        return self._written

    @staticmethod
    def _await_leader(side: Side, topic: str) -> None:
        sock = load.connect(side.wait_for_leaders(topic, 1)[0])
        load.first_answer(sock, frames.fetch_frame(topic, 0, 1).frame, frames.fetch_error_position(topic))
        sock.close()

    def _rising(self) -> Iterator[tuple[bytearray, int]]:
        for number in range(self._batches):
            frames.stamped(self._batch, self._first_ms + 10 * number)
            yield self._batch, self._records_each

    def prepare_fetches(self, side: Side) -> Filled:
        topic = self._fill(side)
        offsets = random.Random(1).choices(range(self._records - 200), k=PLACES)
        return Filled(topic, [(side.leaders(topic)[0], frames.fetch_frame(topic, 0, FETCH_BYTES))], offsets)

    def prepare_lookups(self, side: Side) -> Topic:
        topic = self._fill(side)
        timestamps = random.Random(2).choices(range(self._first_ms, self._first_ms + 10 * self._batches), k=PLACES)
        return Topic(topic, [(side.leaders(topic)[0], b"")], 0, timestamps)

    def keep(self, side: Side, prepared: object) -> None:
        """The next case reads it too."""

    def delete(self, side: Side, prepared: object) -> None:
        if side.name in self._topics:
            side.delete_topic(self._topics.pop(side.name))
