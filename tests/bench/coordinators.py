"""Coordinators as benchmarks of groups meet them: who serves a group, which shards each has, and commits that wait for one."""

from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.shard_owners import Owner
from libs.cluster.topic_names import GROUP_TOPIC
from libs.coordinator.core.shard_hashing import shard_of
from tests.bench import group_frames, load
from tests.bench.sides import Side

COMING: Final = frozenset({14, 15, 16})
"""Errors of a coordinator that is being found or loaded."""
UNKNOWN_TOPIC = 3


def coordinator_of(side: Side, group: str) -> load.Address:
    """Waits until there is one."""
    host, _, port = side.bootstrap.split(",")[0].rpartition(":")
    sock = load.connect((host, int(port)))
    try:
        found = load.ask_until_taken(
            sock,
            group_frames.find_coordinator_frame(group),
            lambda answer: group_frames.coordinator_found(answer).error,
            COMING,
            what=f"{side.name}: FindCoordinator",
        )
    finally:
        sock.close()
    coordinator = group_frames.coordinator_found(found)
    return coordinator.host, coordinator.port


def commit(side: Side, group: str, topic: str, *, offset: int = 1, partitions: int = 1) -> tuple[load.Address, bytes]:
    """To partitions 0 and up of a topic that was created just now, perhaps. Returns where to, and the frame that was taken."""
    address, frame = coordinator_of(side, group), group_frames.commit_frame(group, topic, offset, partitions)
    error_of = load.error_at(group_frames.commit_error_position(topic))
    sock = load.connect(address)
    try:
        load.ask_until_taken(sock, frame, error_of, COMING | {UNKNOWN_TOPIC}, what=f"{side.name}: OffsetCommit")
    finally:
        sock.close()
    return address, frame


def shards_by_owner(image: ClusterImage) -> dict[int, list[int]]:
    """Node id of a coordinator → its shards. Those that nobody owns are in none."""
    found: dict[int, list[int]] = {}
    topic = image.topics.get(GROUP_TOPIC)
    states = image.partitions_of(bytes.fromhex(topic.topic_id)) if topic is not None else ()
    for shard, state in enumerate(states):
        owner = Owner.named(state.owner) if state is not None else None
        if owner is not None:
            found.setdefault(owner.node_id, []).append(shard)
    return found


def groups_in(shard: int, shards: int, wanted: int) -> list[str]:
    """Names of groups whose shard that is, of so many."""
    found: list[str] = []
    number = 0
    while len(found) < wanted:
        if shard_of(f"group-{number}", shards) == shard:
            found.append(f"group-{number}")
        number += 1
    return found
