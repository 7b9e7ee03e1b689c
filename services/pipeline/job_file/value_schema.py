"""The `[jobs.NAME.schema]` table: how values are parsed."""

import json
from pathlib import Path
from typing import Any

from services.pipeline.job_file.reader import TableReader
from services.pipeline.protobuf.message_types import InvalidDescriptorSet, MessageTypes, UnfitMessage, refuse_unfit
from services.pipeline.spark.value_schema import ValueSchema

FORMATS = ("json", "avro", "protobuf")
FRAMINGS = ("none", "confluent")
SCHEMA_ID_MAX = (1 << 31) - 1
MESSAGES_NAMED_MAX = 20
"""Message types that a refusal names at most."""


def read_value_schema(table: TableReader) -> ValueSchema | None:
    """None: values are not parsed."""
    if not table.has("schema"):
        return None
    schema = table.table("schema")
    found = schema.choice("format", FORMATS)
    descriptors = b""
    if found == "json":
        text = schema.text("ddl")
    elif found == "avro":
        text = _avro_text(schema)
    else:
        text, descriptors = _protobuf_message(schema)
    framing = schema.choice("framing", FRAMINGS, "none")
    ids = _schema_ids(schema, found, framing)
    schema.end()
    return ValueSchema(found, text, framing, descriptors, ids)


def _schema_ids(schema: TableReader, found: str, framing: str) -> tuple[int, ...]:
    """A value of another schema would decode into wrong columns without an error. JSON names its fields, and may do without."""
    if framing == "none":
        schema.refuse_needless("ids", "only frames have schema ids: framing = 'confluent'")
        return ()
    if found == "json" and not schema.has("ids"):
        return ()
    if not schema.has("ids"):
        raise schema.absence("ids", "a list of the registry's schema ids that this schema fits, e.g. [1, 7]")
    ids = schema.integers("ids", at_most=SCHEMA_ID_MAX)
    return tuple(sorted(set(ids)))


def _avro_text(schema: TableReader) -> str:
    """The Avro schema document in the file that `file` names."""
    path = Path(schema.text("file"))
    try:
        text = path.read_text(encoding="utf-8")
        document: Any = json.loads(text)
    except (OSError, ValueError) as error:
        raise schema.refusal("file", str(path), f"a file with an Avro schema ({error})") from None
    if not isinstance(document, dict) or document.get("type") != "record":
        raise schema.refusal("file", str(path), "a file with the Avro schema of a record")
    return text


def _protobuf_message(schema: TableReader) -> tuple[str, bytes]:
    """The name of the message type, and the FileDescriptorSet in the file that `file` names."""
    path = Path(schema.text("file"))
    try:
        descriptors = path.read_bytes()
        types = MessageTypes(descriptors)
    except (OSError, InvalidDescriptorSet) as error:
        allowed = f"a file that protoc --include_imports --descriptor_set_out has written ({error})"
        raise schema.refusal("file", str(path), allowed) from None
    name = schema.text("message", None)
    if name not in types.names:
        named = ", ".join(types.names[-MESSAGES_NAMED_MAX:])
        more = len(types.names) - MESSAGES_NAMED_MAX
        raise schema.refusal("message", name, f"a message of {path}: {named}{f' and {more} more' if more > 0 else ''}")
    try:
        refuse_unfit(types[name])
    except UnfitMessage as error:
        raise schema.refusal("message", name, f"a message that can be a struct of columns ({error})") from None
    return name, descriptors
