"""The turns of an event loop that many producer ids of one partition make longer, and what they take in memory.

    python -m tests.bench.producer_ids [PRODUCERS ...]

It prints one JSON object for each number of producers. Times are CPU time of the loop's thread, in ms, and the longest of each
kind of turn; `save` is that of the thread that writes a roll's snapshot and a resume point. Wall time does not count.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from libs.clock import SystemClock
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.open_files import OpenFiles
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import BatchMeta, Log
from libs.commitlog.segments.segment import FileRegistry
from libs.wire.record_batches.batches import BatchHeader

DAY_MS = 86_400_000
SIZE = 61
SAMPLES = 20_000


Result = TypeVar("Result")


class Turns:
    """The longest turn of each kind."""

    def __init__(self) -> None:
        self.longest_ms: dict[str, float] = {}

    def run(self, kind: str, work: Callable[[], Result]) -> Result:
        began = time.thread_time()
        result = work()
        took_ms = (time.thread_time() - began) * 1000
        self.longest_ms[kind] = round(max(self.longest_ms.get(kind, 0.0), took_ms), 3)
        return result


def measure(count: int, directory: str) -> dict[str, object]:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock, fs = SystemClock(), OsFileSystem()
    config = LogConfig(producer_ids_max=count)
    log = Log.open(f"{directory}/t-0", "t", 0, config, fs, registry=FileRegistry(OpenFiles(100)), clock=clock)
    turns = Turns()

    def append(producer_id: int, sequence: int = 0) -> None:
        offset = log.log_end_offset
        header = BatchHeader(offset, SIZE - 12, 0, 2, 0, 0, 0, 1000, 1000, producer_id, 0, sequence, 1)
        log.producers.check(header)
        log.producers.record(header, offset)
        log.append([bytes(SIZE)], [BatchMeta(offset, offset, SIZE, 1000, offset, 0)])

    def save() -> None:
        turns.run("roll", log.roll)
        targets = turns.run("resume point", lambda: log.sync_targets(resume_point=True))
        assert targets is not None
        turns.run("save", lambda: targets.lineage.write(fs, targets))
        turns.run("settle", lambda: log.mark_synced(targets))

    def expire(kind: str, now_ms: int) -> None:
        turns.run(kind, lambda: log.producers.expire(now_ms, DAY_MS))
        while log.producers.entries.is_expiring:
            turns.run(kind, lambda: log.producers.expire(now_ms, DAY_MS))

    for producer_id in range(count):
        turns.run("append of a new id", lambda producer_id=producer_id: append(producer_id))  # type: ignore[misc]
    memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    save()
    for producer_id in range(0, count, max(1, count // SAMPLES)):
        turns.run("append after a save", lambda producer_id=producer_id: append(producer_id, 1))  # type: ignore[misc]
    save()
    for producer_id in range(count, count + SAMPLES):
        turns.run("append at the bound", lambda producer_id=producer_id: append(producer_id))  # type: ignore[misc]
    expire("expiry of none", 0)
    save()
    expire("expiry of all", DAY_MS)
    assert not log.producers.entries
    saved_ms = turns.longest_ms.pop("save")
    return {
        "producers": count,
        "longest_turn_ms": max(turns.longest_ms.values()),
        "turns_ms": turns.longest_ms,
        "save_ms": saved_ms,
        "bytes_per_producer": memory_kb * 1024 // count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("producers", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    for count in parser.parse_args().producers:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(measure(count, str(Path(directory)))), flush=True)


if __name__ == "__main__":
    main()
