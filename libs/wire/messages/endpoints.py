"""Tagged fields that Produce (10+) and Fetch (12+, 16+) share: where a partition's leader is now (KIP-951)."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from libs.wire.primitives import Writer

_LEADER = struct.Struct(">iib")  # leader id, leader epoch, and no tagged fields of its own


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def current_leader(leader_id: int, leader_epoch: int) -> bytes:
    return _LEADER.pack(leader_id, leader_epoch, 0)


def write_current_leader(writer: Writer, tag: int, leader_id: int, leader_epoch: int) -> None:
    """A whole tagged section with this one field."""
    writer.buffer += bytes((1, tag, _LEADER.size))
    writer.buffer += _LEADER.pack(leader_id, leader_epoch, 0)


def write_node_endpoints(writer: Writer, endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged section at the end of a response: tag 0, left out when there are none."""
    if not endpoints:
        writer.no_tagged_fields()
        return
    field = Writer()
    field.array_length(len(endpoints), flexible=True)
    for endpoint in endpoints:
        field.int32(endpoint.node_id)
        field.string(endpoint.host, flexible=True)
        field.int32(endpoint.port)
        field.nullable_string(endpoint.rack, flexible=True)
        field.no_tagged_fields()
    writer.tagged_fields([(0, field)])
