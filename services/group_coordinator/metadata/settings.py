"""Settings of groups, from the cluster-wide broker configs of the image: what an operator changes counts at the next decision."""

import logging

from libs.cluster.configs.resolve import NO_BROKER, broker_settings
from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields
from services.group_coordinator.core.settings import GroupSettings

log = logging.getLogger(__name__)


class Settings:
    """Give `follow` each image, and read `current`."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self.current = _of(self._image)

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if image.overrides("broker", "") is before.overrides("broker", ""):
            return
        try:
            self.current = _of(image)
        except ValueError as error:  # a newer version wrote what this one cannot read
            log.error("settings of groups cannot be read: the former ones stay", extra=fields(reason=error))


def _of(image: ClusterImage) -> GroupSettings:
    """Raises ValueError."""

    def value(name: str) -> str:
        return broker_settings(image, (name,), NO_BROKER, None)[0].value

    return GroupSettings.from_configs(value)
