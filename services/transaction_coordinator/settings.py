"""Settings of transactions, from the cluster-wide broker configs and the topics of the image. A change
counts from the next decision on."""

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import GROUP_TOPIC
from services.transaction_coordinator.core.transaction_machine import TransactionSettings


class Settings:
    """The current settings. Give `follow` each image, and read `current`."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self.current = TransactionSettings()

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        groups, former_groups = image.topics.get(GROUP_TOPIC), before.topics.get(GROUP_TOPIC)
        if image.overrides("broker", "") is not before.overrides("broker", "") or groups is not former_groups:
            self.current = TransactionSettings(
                timeout_ms_max=effective_broker_int(image, "transaction.max.timeout.ms"),
                id_expiration_ms=effective_broker_int(image, "transactional.id.expiration.ms"),
                expiry_check_ms=effective_broker_int(image, "transaction.remove.expired.transaction.cleanup.interval.ms"),
                group_shards=groups.partitions if groups is not None else 0,
            )
