"""Fetches of a log that only the disk has, and the same ones from the page cache.

`cold-*` reads a log once from one end to the other. Each turn gets a log of its own, which is written, synced, and dropped from
the page cache before: files that a server has mapped cannot be dropped. `disk_read_share` of the costs says how many bytes
the disk really read for each byte that was fetched.
"""

from dataclasses import replace
from pathlib import Path

from tests.bench.cases import KIB, Case, Measured
from tests.bench.lean.cases import Prepared, clean, fetch_case, prepare_filled, prepare_topic, whole_batches
from tests.bench.lean.generator import run_load
from tests.bench.load import BenchError
from tests.bench.page_cache import drop_cached
from tests.bench.process_counters import disk_reads_of
from tests.bench.sides import Side, partition_folders

LOG_BYTES = 256 * 1024 * KIB
"""Over all partitions of a case."""
READ_SHARE = 0.9
"""A pass ends here, before the quickest connection comes to the end and begins anew with pages that are hot."""
COLD_SHARE_MIN = 0.5
PASS_S_MAX = 60.0
LOADS = {"64KB": (64 * KIB, 16 * KIB), "1MB": (1024 * KIB, 128 * KIB)}
"""(bytes of a fetch, bytes of a batch)"""


def partitions_of(side: Side, topic: str) -> list[Path]:
    """The folders of a topic's partitions."""
    found = partition_folders(side.log_directory, topic)
    assert found, f"{side.log_directory} has no partition of {topic}"
    return found


def cold_case(name: str, max_bytes: int, batch_size: int, connections: int) -> Case:
    base = fetch_case(name, max_bytes, batch_size, connections, filled_bytes=LOG_BYTES)

    def prepare(side: Side) -> Prepared:
        return prepare_topic(side, name, connections, connections)

    def renew(side: Side, prepared: object) -> Prepared:
        clean(side, prepared)
        fresh = prepare_filled(side, name, connections, batch_size, LOG_BYTES)
        drop_cached(partitions_of(side, fresh.topic))
        return fresh

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        options = {"max-bytes": max_bytes, "bytes-max": int(LOG_BYTES * READ_SHARE)}
        before = disk_reads_of(side.pids)
        measured = whole_batches(side, run_load("fetch", prepared.topic, prepared.plan, PASS_S_MAX, options))
        disk_bytes = disk_reads_of(side.pids) - before
        if disk_bytes < COLD_SHARE_MIN * measured.bytes:
            raise BenchError(f"{side.name}: of {measured.bytes} bytes, only {disk_bytes} came from the disk")
        return measured

    settings = base.settings.replace("data in the page cache", f"{LOG_BYTES // KIB // KIB} MiB read once, not in the page cache")
    return replace(base, settings=settings, prepare=prepare, run=run, renew=renew)


def cold_cases() -> list[Case]:
    cases = []
    for label, (max_bytes, batch_size) in LOADS.items():
        for connections in (1, 4):
            words = f"fetch-{label}-{connections}conn"
            cases.append(fetch_case(f"hot-{words}", max_bytes, batch_size, connections, filled_bytes=LOG_BYTES))
            cases.append(cold_case(f"cold-{words}", max_bytes, batch_size, connections))
    return cases
