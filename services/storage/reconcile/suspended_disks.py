"""Suspended disks: their sync hangs, or they are full. Their replicas leave ISRs until that ends.

Nothing new on such a disk becomes durable. So a leader on it commits nothing, and a follower on it holds its leader back. Both
ask to leave the ISR, which moves leadership too, wherever another member is in sync. Otherwise they stay and wait. They copy
nothing meanwhile, or a leader that goes by log ends would let them back in at once.
"""

from collections.abc import Callable

from services.storage.disks.disks import Disk
from services.storage.disks.withdrawals import ReplicaWithdrawals
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key, Partition
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.replication.follower.fetcher_manager import FetcherManager


class SuspendedDisks:
    """Call `changed` when a disk may be suspended now, or no more. A replica that is opened on a suspended disk is up to the
    reconciler."""

    def __init__(
        self,
        open_logs: OpenLogs[Disk],
        reconsider: Callable[[Key], None],
        fetchers: FetcherManager,
        withdrawals: ReplicaWithdrawals,
    ) -> None:
        self._open_logs = open_logs
        self._reconsider = reconsider
        self._fetchers = fetchers
        self._withdrawals = withdrawals

    def changed(self, scheduler: SyncScheduler[Partition]) -> None:
        change = self._suspend if scheduler.suspended else self._resume
        for partition, disk in self._open_logs.all():
            if disk.sync is scheduler:
                change(partition)

    def _suspend(self, partition: Partition) -> None:
        self._fetchers.stop_fetching(partition)
        self._withdrawals.suspend(partition.key)

    def _resume(self, partition: Partition) -> None:
        if not partition.failed_reads.damaged:
            self._withdrawals.resume(partition.key)
        self._reconsider(partition.key)
