"""Values of a topic as rows of one message type, or the reason why not."""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from services.pipeline.protobuf.confluent_frame import HEADER_BYTES, index_paths, read_indexes
from services.pipeline.protobuf.message_types import MessageTypes
from services.pipeline.protobuf.row_decoder import NoValue, Row, RowDecoder

Decoded = tuple[Row | None, str | None]
"""A row, or the reason why there is none."""


@lru_cache(maxsize=16)
def value_decoder(descriptors: bytes, name: str, framing: Literal["none", "confluent"]) -> Callable[[bytes], Decoded]:
    """The decoder for the message type `name` of a FileDescriptorSet. Each process makes it once."""
    message = MessageTypes(descriptors)[name]
    rows, paths = RowDecoder(message), index_paths(message)
    no_value = f"no Protobuf value of {name}"

    def decode(data: bytes) -> Decoded:
        try:
            return rows(data), None
        except NoValue:
            return None, no_value

    def decode_framed(value: bytes) -> Decoded:
        try:
            path, end = read_indexes(value, HEADER_BYTES)
        except ValueError:
            return None, "no Confluent frame: no message indexes follow the schema id"
        if path not in paths:
            return None, f"the Confluent frame has the message indexes {list(path)}, which are not those of {name}"
        return decode(value[end:])

    return decode_framed if framing == "confluent" else decode
