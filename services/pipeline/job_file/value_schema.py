"""The `[jobs.NAME.schema]` table: how values are parsed."""

import json
from pathlib import Path
from typing import Any, Literal

from services.pipeline.job_file.reader import TableReader
from services.pipeline.spark.value_schema import ValueSchema

FRAMINGS = ("none", "confluent")


def read_value_schema(table: TableReader) -> ValueSchema | None:
    """None: values are not parsed."""
    if not table.has("schema"):
        return None
    schema = table.table("schema")
    found: Literal["json", "avro"] = schema.choice("format", ("json", "avro"))
    text = schema.text("ddl") if found == "json" else _avro_text(schema)
    framing = schema.choice("framing", FRAMINGS, "none")
    schema.end()
    return ValueSchema(found, text, framing)


def _avro_text(schema: TableReader) -> str:
    """The Avro schema document in the file that `file` names."""
    path = Path(schema.text("file"))
    try:
        text = path.read_text()
        document: Any = json.loads(text)
    except (OSError, ValueError) as error:
        raise schema.refusal("file", str(path), f"a file with an Avro schema ({error})") from None
    if not isinstance(document, dict) or document.get("type") != "record":
        raise schema.refusal("file", str(path), "a file with the Avro schema of a record")
    return text
