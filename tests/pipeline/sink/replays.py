"""A table of the lake for replay jobs, the jobs, and what they have written."""

from pathlib import Path

from libs.wire.record_batches.records import Record
from tests.pipeline.chaos.lake_table import LakeRow
from tests.pipeline.sink.topics import read_topic

NOW_MS = 1_795_000_000_000
ROWS = [Record(b"key-%d" % (n % 7), b"%d" % n, NOW_MS + n, (("h", b"x"),) * (n % 2)) for n in range(120)]
TABLE: list[LakeRow] = [("from", n % 3, n // 3, row) for n, row in enumerate(ROWS)]


def replay(lake: Path, topic: str, extra: str = "") -> str:
    return f'[jobs.again]\nkind = "replay"\ntable = "{lake}/rows"\ntopic = "{topic}"\n{extra}\n'


def contents(rows: list[Record]) -> list[tuple[object, ...]]:
    return sorted((row.key, row.value, row.timestamp, row.headers) for row in rows)


def written(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    return sorted((record.key, record.value, record.timestamp, record.headers) for record in read_topic(bootstrap, topic))
