"""The replica from which a consumer in a given rack should read (KIP-392), chosen as Kafka's RackAwareReplicaSelector does."""

from collections.abc import Iterable
from typing import NamedTuple

LEADER = -1


class CaughtUpFollower(NamedTuple):
    """An in-sync follower that has all records before the consumer's offset."""

    node_id: int
    rack: str
    log_end: int


def select_replica(rack: str, leaders_rack: str, followers: Iterable[CaughtUpFollower]) -> int:
    """The follower in the consumer's rack with the highest log end; among equals the lowest node id.

    LEADER, if the leader is in that rack itself, or no follower is.
    """
    nearby = [follower for follower in followers if follower.rack == rack]
    if not rack or rack == leaders_rack or not nearby:
        return LEADER
    return max(nearby, key=lambda follower: (follower.log_end, -follower.node_id)).node_id
