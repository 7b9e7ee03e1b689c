"""Whether a logger writes DEBUG and TRACE, for hot paths."""

import logging
from typing import ClassVar, Final

TRACE: Final = 5
"""Kafka's level below DEBUG. Python has none."""
logging.addLevelName(TRACE, "TRACE")


class Switches:
    """The switches of one logger, as plain attributes: a request that nobody logs calls nothing. A module makes one when it is
    imported. They follow changes by `log_levels.set_level` and `logs.configure`, which call `look`."""

    _all: ClassVar[list["Switches"]] = []

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.debug = self.trace = False
        self._all.append(self)
        self._look()

    def _look(self) -> None:
        self.debug, self.trace = self._logger.isEnabledFor(logging.DEBUG), self._logger.isEnabledFor(TRACE)

    @classmethod
    def look(cls) -> None:
        """Brings all switches up to date."""
        for switches in cls._all:
            switches._look()
