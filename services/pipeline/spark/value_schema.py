"""How values of a topic are to be parsed. It needs no PySpark."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ValueSchema:
    """`text` is a DDL string for JSON, an Avro schema document for Avro."""

    format: Literal["json", "avro"]
    text: str
    framing: Literal["none", "confluent"] = "none"
    """`confluent`: a zero byte and a schema id of four bytes lie before each value."""
