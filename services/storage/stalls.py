"""A disk whose sync hangs: its replicas stand down until it returns.

Nothing that a hanging disk takes becomes durable, so a leader on it commits nothing, and a follower on it holds its leader back.
Both ask to be out of the ISR, which moves leadership too, wherever somebody else is in sync; where nobody is, they stay and wait.
They copy nothing meanwhile, or a leader that goes by log ends would let them back in at once.
"""

from services.storage.following.following import Following
from services.storage.residents import Residents
from services.storage.sync_scheduler import SyncScheduler
from services.storage.withdrawals import Withdrawals


class Stalls:
    def __init__(self, residents: Residents, following: Following, withdrawals: Withdrawals) -> None:
        self._residents = residents
        self._following = following
        self._withdrawals = withdrawals

    def begun(self, scheduler: SyncScheduler) -> None:
        for hosted, disk in self._residents.open_logs():
            if disk.sync is scheduler:
                self._following.let_go(hosted)
                self._withdrawals.stand_down(hosted.key)

    def ended(self, scheduler: SyncScheduler) -> None:
        for hosted, disk in self._residents.open_logs():
            if disk.sync is scheduler:
                if not hosted.failed_reads.damaged:
                    self._withdrawals.stand_up(hosted.key)
                self._residents.look_again(hosted.key)
