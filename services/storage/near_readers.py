"""Consumers that name their rack read from followers there: who is named to them, and what a follower shows (KIP-392)."""

from collections.abc import Mapping

from libs.cluster.configs.resolve import effective_broker_value
from libs.cluster.records import STORAGE, PartitionState
from libs.commitlog.reading import Slice
from libs.commitlog.segment import SegmentFile
from services.storage.core.admission import Refusal
from services.storage.core.nearer import LEADER, Reader, nearer_reader
from services.storage.failed_reads import FailedReads
from services.storage.hosted import Hosted, Key
from services.storage.partition_view import PartitionView
from services.storage.partitions import Partitions

SELECTOR = "replica.selector.class"


class Followed:
    """A partition that this node follows, as a `PartitionView`: what the leader told is committed, in the leader's epoch."""

    __slots__ = ("_hosted", "_state")

    leading = False
    is_behind = False

    def __init__(self, hosted: Hosted, state: PartitionState) -> None:
        self._hosted = hosted
        self._state = state

    @property
    def failed_reads(self) -> FailedReads:
        return self._hosted.failed_reads

    @property
    def node_id(self) -> int:
        return self._state.leader

    @property
    def leader_epoch(self) -> int:
        return self._state.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._hosted.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._hosted.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._hosted.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._hosted.last_stable_offset

    @property
    def active_file(self) -> SegmentFile:
        return self._hosted.active_file

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Slice | None:
        return self._hosted.read(offset, max_bytes, end_offset, at_least_one_batch=at_least_one_batch)

    def aborted_transactions(self, piece: Slice, offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        return self._hosted.aborted_transactions(piece, offset, end_offset)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._hosted.end_of_epoch(leader_epoch)


class NearReaders:
    def __init__(self, partitions: Partitions, static: Mapping[str, str]) -> None:
        self._partitions = partitions
        self._static = static

    def shown(self, key: Key) -> PartitionView | Refusal:
        """The partition if this node leads or follows it, else why not."""
        found = self._partitions.serving(key)
        hosted = self._partitions.by_key.get(key)
        if isinstance(found, Hosted) or hosted is None or hosted.offline:
            return found
        state = self._partitions.image.partition(*key)
        if state is None or state.leader in (-1, self._partitions.node_id):
            return found
        return Followed(hosted, state)

    def nearer(self, key: Key, rack: str, offset: int) -> int:
        """The node that a consumer in the rack had better read this partition from; LEADER: from us."""
        hosted = self._partitions.by_key.get(key)
        own = self._partitions.node_id
        image = self._partitions.image
        if (
            hosted is None
            or not hosted.leading
            or not effective_broker_value(image, SELECTOR, broker_id=own, static=self._static)
        ):
            return LEADER
        members = image.members(STORAGE)
        readers = [
            Reader(node_id, members[node_id].rack, log_end)
            for node_id, log_end in hosted.replica.readers(offset)
            if node_id in members
        ]
        return nearer_reader(rack, members[own].rack if own in members else "", readers)
