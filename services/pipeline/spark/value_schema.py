"""How values of a topic are to be parsed. It needs no PySpark."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class ValueSchema:
    """`text` is a DDL string for JSON, an Avro schema document for Avro, the full name of a message type for Protobuf."""

    format: Literal["json", "avro", "protobuf"]
    text: str
    framing: Literal["none", "confluent"] = "none"
    """`confluent`: a zero byte and a schema id of four bytes lie before each value, and message indexes if it is Protobuf."""
    descriptors: bytes = field(default=b"", repr=False)
    """The FileDescriptorSet that has the message type; only for Protobuf."""
    ids: tuple[int, ...] = ()
    """Schema ids of Confluent's frames that the schema fits; values with others are not parsed. Empty: any, only for JSON."""
