"""Reads of a log that failed: told once for each place, however many consumers come back to it."""

import logging

from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

PLACES_MAX = 100


class FailedReads:
    """Of one partition. An error's words name the place."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, partition: object, error: Exception, **where: object) -> None:
        words = str(error)
        if words in self._told:
            return
        if len(self._told) >= PLACES_MAX:
            self._told.clear()
        self._told.add(words)
        log.error("read failed, and so will every read of this place", extra=fields(partition=partition, **where, reason=error))
