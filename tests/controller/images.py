"""Cluster images for the controller's tests, made from the records that they show."""

from collections.abc import Mapping, Sequence

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import GROUP_COORDINATOR, ConfigOverrides, InSync, Member, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult


def storage(node_id: int, incarnation: int = 1, log_dirs: tuple[str, ...] = ("d",), rack: str = "", host: str = "") -> Member:
    return Member("storage", node_id, incarnation, host, log_dirs=tuple(f"{d}{node_id}" for d in log_dirs), rack=rack)


def group_coordinator(node_id: int, incarnation: int = 1) -> Member:
    return Member(GROUP_COORDINATOR, node_id, incarnation, "")


def led_by(node_id: int, incarnation: int = 1, log_dir_id: str | None = None) -> PartitionState:
    directory = f"d{node_id}" if log_dir_id is None else log_dir_id
    return PartitionState((Replica(node_id, directory),), node_id, incarnation, 0, 0, (InSync(node_id, incarnation),))


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def image_of(
    *members: Member,
    topics: Mapping[str, Sequence[PartitionState]] | None = None,
    overrides: Mapping[tuple[str, str], dict[str, str]] | None = None,
    gone: Sequence[int] = (),
) -> ClusterImage:
    """`topics` get the ids 1, 2, … in order. `gone` are nodes that were registered once."""
    values: dict[str, bytes] = {keys.CLUSTER_ID: encode("c" * 22)}
    for member in members:
        values[keys.member(member.role, member.node_id)] = encode(member)
        values[keys.node(member.node_id)] = encode(NodeRecord(member.node_id, member.log_dirs, member.rack))
    for node_id in gone:
        values[keys.node(node_id)] = encode(NodeRecord(node_id))
    for number, (name, states) in enumerate((topics or {}).items(), start=1):
        values[keys.topic(name)] = encode(Topic(name, topic_id(number).hex(), len(states)))
        for index, state in enumerate(states):
            values[keys.partition(topic_id(number), index)] = encode(state)
    for (kind, name), result in (overrides or {}).items():
        values[keys.config(kind, name)] = encode(ConfigOverrides(result))
    items = tuple(KeyValue(key, values[key], 5, 5, 0) for key in sorted(values))
    return ClusterImage.from_range(RangeResult(items, 9))
