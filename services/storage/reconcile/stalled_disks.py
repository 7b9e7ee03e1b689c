"""Disks whose sync hangs: their replicas leave ISRs until the sync returns.

Nothing on a hanging disk becomes durable. So a leader on it commits nothing, and a follower on it holds its leader back. Both ask
to leave the ISR, which moves leadership too, wherever another member is in sync. Otherwise they stay and wait. They copy nothing
meanwhile, or a leader that goes by log ends would let them back in at once.
"""

from collections.abc import Callable

from services.storage.disks.disks import Disk
from services.storage.disks.withdrawals import ReplicaWithdrawals
from services.storage.partition.open_logs import OpenLogs
from services.storage.partition.partition import Key
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.replication.follower.fetcher_manager import FetcherManager


class StalledDisks:
    def __init__(
        self,
        open_logs: OpenLogs[Disk],
        reconsider: Callable[[Key], None],
        fetchers: FetcherManager,
        withdrawals: ReplicaWithdrawals,
    ) -> None:
        self._open_logs = open_logs
        self._look_again = reconsider
        self._fetchers = fetchers
        self._withdrawals = withdrawals

    def begun(self, scheduler: SyncScheduler) -> None:
        for partition, disk in self._open_logs.all():
            if disk.sync is scheduler:
                self._fetchers.stop_fetching(partition)
                self._withdrawals.suspend(partition.key)

    def ended(self, scheduler: SyncScheduler) -> None:
        for partition, disk in self._open_logs.all():
            if disk.sync is scheduler:
                if not partition.failed_reads.damaged:
                    self._withdrawals.resume(partition.key)
                self._look_again(partition.key)
