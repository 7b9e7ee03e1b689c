"""Checks that partition states name the log directories in which the replicas lie.

A moving replica's target is announced before the replica is there (KIP-858). So the controller never decides by a directory that
the log has left; meanwhile the state may name one with a copy only. A wrong name in a state is reported for as long as it takes:
after a move that ended, or a directory that failed.
"""

from services.storage.core.replication.leadership import assigned_directory, hosts
from services.storage.disks.disks import Disk
from services.storage.disks.replica_placement import ReplicaPlacement
from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable


class DirectoryChecks:
    def __init__(self, partitions: PartitionTable, placement: ReplicaPlacement) -> None:
        self._partitions = partitions
        self._disks = placement.disks
        self._assignments = placement.assignments
        self._withdrawals = placement.withdrawals

    def check(self, partition: Partition, disk: Disk) -> None:
        """Checks a partition after a change of its state or its directory, or of any directory's health."""
        key = partition.key
        named = self._named(key)
        if named is None or named == disk.directory_id:
            return
        is_usable = named in self._disks.directory_ids
        if disk.sync.failed:
            if is_usable or not named:  # the controller cannot see that the log is lost
                self._withdrawals.withdraw(key)
        elif not (partition.moving and is_usable):
            self._assignments.report(key, disk.directory_id)

    def names(self, key: Key, disk: Disk) -> bool:
        """Whether the state names the directory, and will go on to."""
        return self._named(key) == disk.directory_id and self._assignments.unconfirmed(key) <= {disk.directory_id}

    def may_name(self, key: Key, disk: Disk) -> bool:
        """Whether the state names the directory, or may soon."""
        named = self._named(key)
        return named is not None and disk.directory_id in {named, *self._assignments.unconfirmed(key)}

    def report(self, key: Key, disk: Disk) -> None:
        """Reports that the log lies there now."""
        self._assignments.report(key, disk.directory_id)

    def request(self, key: Key, disk: Disk) -> None:
        self._assignments.request(key, disk.directory_id)

    def _named(self, key: Key) -> str | None:
        """The directory in the state. None: no replica belongs here."""
        state, node_id = self._partitions.image.partition(*key), self._partitions.node_id
        return assigned_directory(state, node_id) if state is not None and hosts(state, node_id) else None
