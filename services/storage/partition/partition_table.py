"""The partitions of this node by topic id, and the refusal for each one that it cannot serve."""

import asyncio
from itertools import islice
from typing import Final

from libs.cluster.image import ClusterImage
from libs.runtime.admin import NotShown
from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.core.replication.leadership import hosts
from services.storage.partition import open_transactions
from services.storage.partition.partition import Key, Partition
from services.storage.partition.topic_traffic import TopicTraffic, TrafficByTopic

DIGITS_MAX: Final = 10
"""Of a partition's number, an int32."""
SHOWN_MAX: Final = 1000
"""The most partitions on a page: some milliseconds of the loop."""


class PartitionTable:
    """The partitions of this node. The reconciler adds and removes them; requests look them up."""

    __slots__ = ("broken", "by_key", "image", "incarnation", "node_id", "traffic")

    def __init__(self, node_id: int, incarnation: int, topic_series_max: int) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.image = ClusterImage()
        self.by_key: dict[Key, Partition] = {}
        self.broken: set[Key] = set()
        """Partitions whose log could not be opened."""
        self.traffic = TrafficByTopic(topic_series_max)

    def serving(self, key: Key) -> Partition | Refusal:
        """The partition, if this node leads it and its disk works; else the refusal."""
        partition = self.by_key.get(key)
        if partition is not None:
            if partition.offline:
                return _OFFLINE
            if partition.leading:
                return partition
        return self._refuse(key)

    def traffic_of(self, key: Key) -> TopicTraffic:
        """The counts of a partition's topic; those of all others if it is not here."""
        partition = self.by_key.get(key)
        return partition.traffic if partition is not None else self.traffic.others

    def will_lead(self, key: Key, leader_epoch: int, revision: int) -> bool:
        """Whether this node is behind a caller that takes it for the leader in this epoch, by the caller's image at `revision`.

        Its image may be older; then it may turn out to lead, or not. Or the log is being opened. Or the state names an older
        incarnation of this node, and the election after its restart is yet to come.
        """
        partition = self.by_key.get(key)
        if partition is not None and partition.leading:
            return leader_epoch > partition.leader_epoch
        if revision > self.image.revision:
            return True
        topic, state = self.image.topics_by_id.get(key[0]), self.image.partition(*key)
        if topic is None or key[1] >= topic.partitions or state is None or key in self.broken:
            return False
        return state.leader == self.node_id and state.leader_incarnation <= self.incarnation

    def debug(self) -> dict[str, object]:
        """The first `SHOWN_MAX` partitions, and the number of the others as `not_shown`, which is no partition's name."""
        shown: dict[str, object] = {str(each): _shown(each) for each in islice(self.by_key.values(), SHOWN_MAX)}
        rest = len(self.by_key) - len(shown)
        return shown | {"not_shown": rest} if rest else shown

    async def look_up(self, name: str) -> object:
        """One partition, as `TOPIC-NUMBER`, for the admin port."""
        partition = self._named(name)
        if partition is None:
            return NotShown(404, {"error": f"no replica of {name} is open here"})
        isr = list(partition.replica.isr.committed) if partition.leading else None
        return {
            **_shown(partition),
            "topic_id": partition.key[0].hex(),
            "isr": isr,
            "followers": partition.replica.followers_shown(asyncio.get_running_loop().time()),
            "last_stable_offset": partition.last_stable_offset,
            "open_transactions": open_transactions.shown(partition),
        }

    def _named(self, name: str) -> Partition | None:
        topic_name, _, number = name.rpartition("-")
        topic = self.image.topics.get(topic_name)
        if topic is None or len(number) > DIGITS_MAX or not number.isdecimal():
            return None
        return self.by_key.get((bytes.fromhex(topic.topic_id), int(number)))

    def _refuse(self, key: Key) -> Refusal:
        topic_id, index = key
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return Refusal(int(ErrorCode.UNKNOWN_TOPIC_ID))
        if not 0 <= index < topic.partitions:
            return Refusal(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        state = self.image.partition(topic_id, index)
        if state is None:
            return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if key in self.broken and hosts(state, self.node_id):
            return _OFFLINE
        # The state names this node as leader, but it is still opening the log, or the state has an older incarnation. No hint
        # helps.
        leader = -1 if state.leader == self.node_id else state.leader
        return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None, leader, state.leader_epoch)


_OFFLINE = Refusal(int(ErrorCode.KAFKA_STORAGE_ERROR), "the log directory of this partition is offline")


def _shown(partition: Partition) -> dict[str, object]:
    return {
        "leading": partition.leading,
        "leader_epoch": partition.leader_epoch,
        "log_start": partition.log_start_offset,
        "high_watermark": partition.high_watermark,
        "durable": partition.log.durable_offset,
        "log_end": partition.log_end_offset,
        "parked_produces": len(partition.parked),
        "offline": partition.offline,
    }
