"""A Delta table of the lake, made without Spark: one Parquet file, and the log entry that names it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from libs.wire.record_batches.records import Record
from tests.pipeline.sink.arrow_rows import arrow_rows

LakeRow = tuple[str, int, int, Record]
"""Topic, partition, offset, record."""
NUMBERS = {"partition": "integer", "offset": "long", "timestamp_type": "integer", "leader_epoch": "integer"}
HEADER = {"key": "string", "value": "binary"}


def write_table(path: Path, rows: Sequence[LakeRow]) -> None:
    records = arrow_rows([record for *_, record in rows])
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    columns = {
        "topic": pa.array([topic for topic, *_ in rows]),
        "partition": pa.array([partition for _, partition, *_ in rows], pa.int32()),
        "offset": pa.array([offset for _, _, offset, _ in rows], pa.int64()),
        "timestamp": records["timestamp"],
        "timestamp_type": pa.repeat(pa.scalar(0, pa.int32()), len(rows)),
        "key": records["key"],
        "value": records["value"],
        "headers": records["headers"],
        "leader_epoch": pa.nulls(len(rows), pa.int32()),
        "ingest_time": pa.repeat(now, len(rows)),
    }
    (path / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table(columns), path / "rows.parquet")
    size = (path / "rows.parquet").stat().st_size
    schema = {"type": "struct", "fields": [_field(name) for name in columns]}
    metadata = {"id": "lake", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}, "createdTime": 0}},
        {"add": {"path": "rows.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}},
    ]
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def _field(name: str) -> dict[str, object]:
    return {"name": name, "type": _type(name), "nullable": True, "metadata": {}}


def _type(name: str) -> object:
    if name == "headers":
        fields = [{"name": part, "type": kind, "nullable": True, "metadata": {}} for part, kind in HEADER.items()]
        return {"type": "array", "elementType": {"type": "struct", "fields": fields}, "containsNull": True}
    if name in ("timestamp", "ingest_time"):
        return "timestamp"
    return "binary" if name in ("key", "value") else NUMBERS.get(name, "string")
