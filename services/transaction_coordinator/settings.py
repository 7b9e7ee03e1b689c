"""Settings of transactions, from the cluster-wide broker configs of the image. A change counts from the next decision on."""

import logging

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields
from services.transaction_coordinator.core.transaction_machine import TransactionSettings

log = logging.getLogger(__name__)


class Settings:
    """The current settings. Give `follow` each image, and read `current`."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self.current = TransactionSettings()

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if image.overrides("broker", "") is before.overrides("broker", ""):
            return
        try:
            self.current = TransactionSettings(
                timeout_ms_max=effective_broker_int(image, "transaction.max.timeout.ms"),
                id_expiration_ms=effective_broker_int(image, "transactional.id.expiration.ms"),
                expiry_check_ms=effective_broker_int(image, "transaction.remove.expired.transaction.cleanup.interval.ms"),
            )
        except ValueError as error:  # a newer version wrote a value that this one cannot read
            log.error("settings of transactions cannot be read: the previous ones stay", extra=fields(reason=error))
