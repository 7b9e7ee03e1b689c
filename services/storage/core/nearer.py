"""Which replica a consumer in some rack had better read from (KIP-392), as Kafka's RackAwareReplicaSelector chooses."""

from collections.abc import Iterable
from typing import NamedTuple

LEADER = -1


class Reader(NamedTuple):
    """An in-sync follower that has all before the reader's offset."""

    node_id: int
    rack: str
    log_end: int


def nearer_reader(rack: str, leaders_rack: str, followers: Iterable[Reader]) -> int:
    """LEADER if it is in the rack itself, or nobody is; else who of the rack has come furthest, the lowest id among equals."""
    near = [reader for reader in followers if reader.rack == rack]
    if not rack or rack == leaders_rack or not near:
        return LEADER
    return max(near, key=lambda reader: (reader.log_end, -reader.node_id)).node_id
