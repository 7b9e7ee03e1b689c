"""The leader's side of replication: pulls of followers, ISR changes, and questions about log ends and epoch ends."""

from collections.abc import Mapping

from libs.rpc.contracts.replication import PROGRESS, PULL
from libs.rpc.contracts.storage import DESCRIBE_PRODUCERS, END_OF_EPOCH, LOG_ENDS
from libs.rpc.server.rpc_server import Accept
from libs.runtime.controllers import Controllers
from services.storage.config import BrokerConfigs
from services.storage.core.produce.progress_trail import ProgressTrail
from services.storage.core.replication.leader.follower_progress import LagLimits
from services.storage.disks.disk_reads import DiskReads
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.partition_table import PartitionTable
from services.storage.replication.leader.active_producers import ActiveProducersRequests
from services.storage.replication.leader.epoch_ends import EpochEndRequests
from services.storage.replication.leader.isr_changes import IsrChanges
from services.storage.replication.leader.leadership_confirmations import LeadershipConfirmations
from services.storage.replication.leader.log_ends import LogEndRequests
from services.storage.replication.leader.pulls import Pulls
from services.storage.replication.leader.slow_followers import Changed, SlowFollowers
from services.storage.replication.leader.throttle import LeaderThrottle
from services.storage.storage_meters import StorageMeters

LAG_TIME, LAG_MESSAGES = "replica.lag.time.max.ms", "replica.lag.max.messages"


class LeaderReplication:
    """The leader's side. `start` when the image is followed, `close` before the controller's client is closed."""

    def __init__(
        self,
        partitions: PartitionTable,
        meters: StorageMeters,
        controller: Controllers,
        broker_configs: BrokerConfigs,
        checks: LeaderChecks,
        disk_reads: DiskReads,
        trail: ProgressTrail,
        on_slow_followers: Changed,
    ) -> None:
        self.slow_followers = SlowFollowers(meters, on_slow_followers)
        self._partitions = partitions
        self._broker_configs = broker_configs
        self.isr_changes = IsrChanges(partitions, controller, meters, limits=self._limits)
        throttle = LeaderThrottle(partitions, broker_configs)
        self.pulls = Pulls(
            partitions, meters, throttle, disk_reads, trail, on_round=lambda session: self.confirmations.heard(session)
        )
        self.confirmations = LeadershipConfirmations(self.pulls, checks)

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {
            PULL: self.pulls.accept,
            PROGRESS: self.pulls.progress,
            END_OF_EPOCH: EpochEndRequests(self._partitions).accept,
            DESCRIBE_PRODUCERS: ActiveProducersRequests(self._partitions).accept,
            LOG_ENDS: LogEndRequests(self._partitions).accept,
        }

    def start(self) -> None:
        self.isr_changes.start()

    async def close(self) -> None:
        self.slow_followers.close()
        self.confirmations.close()
        await self.isr_changes.close()

    def _limits(self) -> LagLimits:
        return LagLimits(self._broker_configs.integer(LAG_TIME) / 1000, self._broker_configs.integer(LAG_MESSAGES))
