"""Preferred read replicas (KIP-392): the follower that a consumer's rack is sent to, and what that follower shows."""

from libs.cluster.records import STORAGE, PartitionState
from libs.commitlog.segments.reading import Slice
from libs.commitlog.segments.segment import SegmentFile
from services.storage.config import BrokerConfigs
from services.storage.core.fetch.replica_selector import LEADER, CaughtUpFollower, select_replica
from services.storage.core.produce.admission import Refusal
from services.storage.partition.failed_reads import FailedReads
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable
from services.storage.partition.partition_view import AbortedInRead, PartitionView
from services.storage.partition.topic_traffic import TopicTraffic

SELECTOR = "replica.selector.class"


class FollowerView:
    """A partition that this node follows, as a `PartitionView`. Its high watermark and epoch are the leader's."""

    __slots__ = ("_partition", "_state")

    leading = False
    is_behind = False

    def __init__(self, partition: Partition, state: PartitionState) -> None:
        self._partition = partition
        self._state = state

    @property
    def failed_reads(self) -> FailedReads:
        return self._partition.failed_reads

    @property
    def traffic(self) -> TopicTraffic:
        return self._partition.traffic

    @property
    def node_id(self) -> int:
        return self._state.leader

    @property
    def leader_epoch(self) -> int:
        return self._state.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._partition.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._partition.last_stable_offset

    @property
    def active_file(self) -> SegmentFile:
        return self._partition.active_file

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        return self._partition.read(offset, max_bytes, end_offset, at_least_one_batch=at_least_one_batch)

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int, count_max: int) -> AbortedInRead | None:
        return self._partition.aborted_transactions(piece, offset, end_offset, count_max)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._partition.end_of_epoch(leader_epoch)


class PreferredReadReplicas:
    def __init__(self, partitions: PartitionTable, broker_configs: BrokerConfigs) -> None:
        self._partitions = partitions
        self._broker_configs = broker_configs

    def readable(self, key: Key) -> PartitionView | Refusal:
        """The partition, if this node leads or follows it; else the refusal."""
        served = self._partitions.serving(key)
        partition = self._partitions.by_key.get(key)
        if isinstance(served, Partition) or partition is None or partition.offline:
            return served
        state = self._partitions.image.partition(*key)
        if state is None or state.leader in (-1, self._partitions.node_id):
            return served
        return FollowerView(partition, state)

    def select(self, key: Key, rack: str, offset: int) -> int:
        """The node from which a consumer in the rack should read the partition; LEADER: this one."""
        partition = self._partitions.by_key.get(key)
        own = self._partitions.node_id
        image = self._partitions.image
        if partition is None or not partition.leading or not self._broker_configs.value(SELECTOR):
            return LEADER
        members = image.members(STORAGE)
        followers = [
            CaughtUpFollower(node_id, members[node_id].rack, log_end)
            for node_id, log_end in partition.replica.caught_up_followers(offset)
            if node_id in members
        ]
        return select_replica(rack, members[own].rack if own in members else "", followers)
