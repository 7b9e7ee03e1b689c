"""The log on one core, away from any client: recovery after a crash, and compaction beside Kafka's own cleaner."""

import random
import re
import shutil
import statistics
import struct
import tempfile
import time
from itertools import pairwise, repeat
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c

from libs.commitlog.cleaner.cleaning import clean
from libs.commitlog.cleaner.job import CleanJob, SourceSegment
from libs.commitlog.model.config import LogConfig
from tests.bench import frames
from tests.bench.cases import KIB
from tests.bench.log_files import open_log, write_log
from tests.compat.kafka.broker import KafkaBroker

MB = 1_000_000
GIB = 1024**3
CLEANED_IN = re.compile(r"of log processed in ([\d.,]+) seconds.*?Start size: ([\d.,]+) MB", re.DOTALL)
WARM_UPS = 2


def recovery(log_bytes: int = 10 * GIB) -> list[dict[str, object]]:
    """A log of which nothing is known to be synced is opened: every batch is read and checked."""
    return [_recovery(log_bytes, batch_bytes) for batch_bytes in (16 * KIB, KIB)]


def _recovery(log_bytes: int, batch_bytes: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        directory = Path(root) / "recovered-0"
        batch, records = frames.batch_of_about(batch_bytes, 1000, time.time_ns() // MB)
        write_log(directory, repeat((batch, records), -(-log_bytes // len(batch))), LogConfig())
        for saved in (*directory.glob("*.resume"), *directory.glob("*.snapshot"), *directory.glob("*index")):
            saved.unlink()
        wall, cpu = time.perf_counter(), time.process_time()
        found = open_log(directory, LogConfig())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert found.scanned_bytes >= log_bytes * 0.99
        rate = found.scanned_bytes / MB / max(wall, cpu)
    return {
        "name": f"recovery-{batch_bytes // KIB}KB-batches",
        "penstock": round(rate, 1),
        "unit": "MB/s per core",
        "mark": "≥ 500",
        "settings": f"{log_bytes / GIB:g} GiB of {batch_bytes} B batches without a resume point or index, page cache warm",
        "seconds": round(wall, 2),
        "cpu_seconds": round(cpu, 2),
    }


# --- compaction


def compaction(log_bytes: int = GIB) -> list[dict[str, object]]:
    """The same files through our cleaner and through Kafka's; seconds of a whole pass over them, map and copy."""
    return [_compaction(log_bytes, 1000), _compaction(log_bytes // 4, 100)]  # more keys of 100 B would not fit into one pass


def _compaction(log_bytes: int, value_bytes: int) -> dict[str, object]:
    config = LogConfig(segment_bytes=64 * 1024**2)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        directory = Path(root) / "compacted-0"
        write_log(directory, keyed_batches(value_bytes, log_bytes), config)
        ours = statistics.median([_clean_with_ours(directory, config) for _ in range(3)])
        theirs = _clean_with_kafka(directory, Path(root) / "kafka")
    return {
        "name": f"compaction-{value_bytes}B-values",
        "penstock": round(ours, 1),
        "kafka": round(theirs, 1),
        "ratio": round(ours / theirs, 3),
        "unit": "MB/s",
        "mark": "≥ 0.3",
        "durability": {"penstock": "fsynced", "kafka": "fsynced"},
        "settings": (
            f"{log_bytes / GIB:g} GiB of uncompressed 16 KiB batches, keys of 16 B, values of {value_bytes} B, a key about five "
            "times; start size over seconds of the pass, one thread; Kafka after two passes over copies of the same files"
        ),
    }


def keyed_batches(value_bytes: int, log_bytes: int) -> list[tuple[bytes, int]]:
    """As many different batches as give each key five records, in random order."""
    choose = random.Random(3)
    per_batch = max(1, 16 * KIB // (value_bytes + 40))
    batches = max(1, log_bytes // (per_batch * (value_bytes + 30)))
    keys = max(1, batches * per_batch // 5)
    now_ms = time.time_ns() // MB - 3_600_000
    value = bytes(i % 251 for i in range(value_bytes))
    made = []
    for _ in range(batches):
        body = bytearray()
        for delta in range(per_batch):
            key = b"%016d" % choose.randrange(keys)
            record = b"\0\0" + frames.varint(delta) + frames.varint(len(key)) + key + frames.varint(value_bytes) + value + b"\0"
            body += frames.varint(len(record)) + record
        after_crc = struct.pack(">hiqqqhii", 0, per_batch - 1, now_ms, now_ms, -1, -1, -1, per_batch) + body
        after_length = struct.pack(">ibI", 0, 2, crc32c(after_crc)) + after_crc
        made.append((struct.pack(">qi", 0, len(after_length)) + after_length, per_batch))
    return made


def _clean_with_ours(directory: Path, config: LogConfig) -> float:
    """MB/s. Nothing is swapped: the outputs go, and the next run finds the same sources."""
    sizes = {int(path.stem): path.stat().st_size for path in sorted(directory.glob("*.log"))}
    bases = sorted(sizes)
    sources = tuple(SourceSegment(base, after, sizes[base]) for base, after in pairwise(bases))
    job = CleanJob(
        directory=str(directory),
        segments=sources,
        log_start_offset=0,
        first_dirty_offset=0,
        end_offset=bases[-1],
        now_ms=time.time_ns() // MB,
        delete_retention_ms=86_400_000,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=1_048_588,
        map_bytes=128 * 1024**2,
        bytes_per_second=0,
        producers={},
    )
    started = time.perf_counter()
    result = clean(job, lambda progress: None)
    seconds = time.perf_counter() - started
    assert result.end_offset == bases[-1], "the map was too small for one pass"
    assert result.records_kept < result.records_read
    for output in directory.glob("*.cleaned"):
        output.unlink()
    return sum(source.size for source in sources) / MB / seconds


def _clean_with_kafka(directory: Path, root: Path) -> float:
    """MB/s of the last of several copies, so that the JIT had its time."""
    names = [f"compacted-{number}" for number in range(WARM_UPS + 1)]
    properties = {
        "log.cleaner.threads": "1",
        "log.cleaner.backoff.ms": "500",
        "log.segment.bytes": str(64 * 1024**2),
        "log.retention.ms": "-1",
    }
    with KafkaBroker(root, properties=properties, options=("-Dcleaner.level=info",)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        for created in admin.create_topics([NewTopic(name, 1, 1, config=configs) for name in names]).values():
            created.result(60)
        broker.stop()
        for name in names:
            partition = broker.log_directory / f"{name}-0"
            for file in partition.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            shutil.copytree(directory, partition, dirs_exist_ok=True)
        broker.start()
        deadline = time.monotonic() + 900
        while len(passes := CLEANED_IN.findall(broker.log())) < len(names):
            assert time.monotonic() < deadline, f"Kafka cleaned {len(passes)} of {len(names)} partitions"
            time.sleep(1)
    rates = [_number(size) * 1024**2 / MB / _number(seconds) for seconds, size in passes if _number(size) > 1]
    return rates[-1]


def _number(text: str) -> float:
    return float(text.replace(",", ""))
