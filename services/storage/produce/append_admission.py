"""Admission of an append to its partition, as this node sees it now."""

from typing import Final

from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal, refuse_acks, refuse_caller_epoch
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable

NOT_LEADER_OR_FOLLOWER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
KAFKA_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)


class AppendAdmission:
    """The checks that do not depend on the batch. They are made once for a run."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self.stopping = False
        """Whether the node takes no more appends."""

    def admit(self, key: Key, epoch: int, acks: int) -> Partition | Refusal:
        """The partition, if a batch may be staged now. `epoch`: the leader epoch that the caller knows."""
        partition = self._partitions.by_key.get(key)
        if partition is None or not partition.replica.leading or partition.offline or partition.sync.stalled or self.stopping:
            return self._refusal(key)
        replica = partition.replica
        if epoch != replica.leader_epoch and (refusal := refuse_caller_epoch(epoch, replica.leader_epoch)):
            return refusal
        if acks != 1 and (error := refuse_acks(acks, replica.in_sync, replica.min_in_sync)):
            return Refusal(error)
        return partition

    def _refusal(self, key: Key) -> Refusal:
        served = self._partitions.serving(key)
        if self.stopping:
            return Refusal(NOT_LEADER_OR_FOLLOWER, None, -1, served.leader_epoch)
        if isinstance(served, Refusal):
            return served
        return Refusal(KAFKA_STORAGE_ERROR, "the disk of this partition does not answer")
