"""The limits of pulls: replica.fetch.wait.max.ms, .min.bytes, .max.bytes and .response.max.bytes, as they are in force now."""

from typing import Final

from libs.cluster.image import ClusterImage
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.replication import INLINE_BYTES_MAX
from services.storage.config import BrokerConfigs

WAIT_MS_MAX: Final = 10_000
"""The longest wait for records, and so the longest time that a pull keeps limits which a config has changed."""


@dataclass(frozen=True, slots=True)
class PullLimits:
    """What a pull asks for at most, and the bytes for which its leader waits."""

    wait_ms: int
    response_bytes: int
    partition_bytes: int
    min_bytes: int


class ConfiguredLimits:
    """The limits that this node's broker configs set. They are read again only when the image has changed."""

    def __init__(self, broker_configs: BrokerConfigs) -> None:
        self._configs = broker_configs
        self._image: ClusterImage | None = None
        self._limits: PullLimits | None = None

    def now(self) -> PullLimits:
        image = self._configs.image()
        if self._limits is None or image is not self._image:
            self._image, self._limits = image, self._read()
        return self._limits

    def _read(self) -> PullLimits:
        integer = self._configs.integer
        # A follower that waits for as long as its leader's replica.lag.time.max.ms would leave the ISR between two pulls.
        wait_ms = min(integer("replica.fetch.wait.max.ms"), integer("replica.lag.time.max.ms") // 2, WAIT_MS_MAX)
        return PullLimits(
            wait_ms=max(1, wait_ms),
            response_bytes=min(integer("replica.fetch.response.max.bytes"), INLINE_BYTES_MAX),
            partition_bytes=integer("replica.fetch.max.bytes"),
            min_bytes=max(1, integer("replica.fetch.min.bytes")),
        )
