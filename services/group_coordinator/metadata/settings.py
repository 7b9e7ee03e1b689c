"""Settings of groups, from the cluster-wide broker configs of the image. A change counts from the next decision on."""

import logging

from libs.cluster.configs.resolve import NO_BROKER, broker_settings
from libs.cluster.image import ClusterImage
from libs.telemetry.logs import fields
from services.group_coordinator.core.model.settings import GroupSettings

log = logging.getLogger("groups")


class Settings:
    """The current settings. Give `follow` each image, and read `current`."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self.current = _of(self._image)

    def follow(self, image: ClusterImage) -> None:
        before, self._image = self._image, image
        if image.overrides("broker", "") is before.overrides("broker", ""):
            return
        try:
            self.current = _of(image)
        except ValueError as error:  # a newer version wrote a value that this one cannot read
            log.error("settings of groups cannot be read: the previous ones stay", extra=fields(reason=error))


def _of(image: ClusterImage) -> GroupSettings:
    """The settings of an image. Raises ValueError."""

    def value(name: str) -> str:
        return broker_settings(image, (name,), NO_BROKER, None)[0].value

    return GroupSettings.from_configs(value)
