"""What a node does as a leader beside appends and reads: serves followers, keeps ISRs true, answers where logs and epochs end."""

from collections.abc import Callable, Mapping

from libs.cluster.configs.resolve import effective_broker_int
from libs.rpc.contracts.replication import PROGRESS, PULL
from libs.rpc.contracts.storage import END_OF_EPOCH, LOG_ENDS
from libs.rpc.server import Accept
from libs.runtime.controllers import Controllers
from services.storage.core.follower_progress import LagLimits
from services.storage.epoch_ends import EpochEnds
from services.storage.hosted import Hosted
from services.storage.isr_changes import IsrChanges
from services.storage.leader_throttle import LeaderThrottle
from services.storage.log_ends import LogEnding
from services.storage.meters import Meters
from services.storage.partitions import Partitions
from services.storage.pulls import Pulls

LAG_TIME, LAG_MESSAGES = "replica.lag.time.max.ms", "replica.lag.max.messages"


class Leading:
    """`start` once the image is followed; `close` before the controller's client is closed."""

    def __init__(
        self,
        incarnation: int,
        partitions: Partitions,
        meters: Meters,
        controller: Controllers,
        *,
        on_committed: Callable[[Hosted], None],
        static: Mapping[str, str],
    ) -> None:
        self._partitions = partitions
        self._static = static
        self.isr_changes = IsrChanges(
            *(partitions.node_id, incarnation, partitions, controller, meters), limits=self._limits, on_committed=on_committed
        )
        throttle = LeaderThrottle(partitions, static)
        self.pulls = Pulls(*(partitions, meters, throttle), on_committed=on_committed, on_joinable=self.isr_changes.consider)

    @property
    def methods(self) -> Mapping[str, Accept]:
        return {
            PULL: self.pulls.accept,
            PROGRESS: self.pulls.progress,
            END_OF_EPOCH: EpochEnds(self._partitions).accept,
            LOG_ENDS: LogEnding(self._partitions).accept,
        }

    def start(self) -> None:
        self.isr_changes.start()

    async def close(self) -> None:
        await self.isr_changes.close()

    def _limits(self) -> LagLimits:
        return LagLimits(self._broker_int(LAG_TIME) / 1000, self._broker_int(LAG_MESSAGES))

    def _broker_int(self, name: str) -> int:
        return effective_broker_int(self._partitions.image, name, broker_id=self._partitions.node_id, static=self._static)
