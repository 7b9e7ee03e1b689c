"""What Kafka's DumpLogSegments makes of the records that a coordinator wrote."""

import re
from collections.abc import Sequence
from pathlib import Path

from libs.commitlog.files.filesystem import OsFileSystem
from libs.wire.record_batches.records import Record, build_batch
from tests.commitlog.harness import append, open_log
from tests.compat.kafka.tools import run_tool

WRITTEN_MS = 1_700_000_000_000


def decoded_records(directory: Path, decoder: str, records: Sequence[tuple[bytes, bytes | None]]) -> list[str]:
    """The line of each record, as the tool prints it with `decoder`. `directory`: that of a partition, which is made."""
    directory.mkdir()
    log = open_log(directory, OsFileSystem())
    append(log, build_batch([Record(*record, WRITTEN_MS, ()) for record in records], base_offset=0, leader_epoch=0))
    log.close(clean=True)
    (file,) = directory.glob("*.log")
    return re.findall(r"(key: .*)$", run_tool("kafka-dump-log", decoder, "--files", str(file)).text, re.MULTILINE)
