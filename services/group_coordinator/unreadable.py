"""What is no request is told once a second for each gateway, however many its clients send."""

import logging
from collections.abc import Callable
from typing import Final

from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
PEERS_MAX: Final = 100


class Unreadable:
    """`now` in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._told: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._untold_of_others = 0
        """Of peers that are not remembered any more."""

    def tell(self, peer: str, api: str, version: int, reason: Exception) -> None:
        """`untold`: so many of that peer were passed over since the last line about it. `untold_of_others`: so many of peers that
        were forgotten, since the last line about anybody. Each that was passed over is counted once."""
        now = self._now()
        told = self._told.get(peer)
        if told is not None and now - told < EVERY_S:
            self._untold[peer] = self._untold.get(peer, 0) + 1
            return
        if told is None and len(self._told) >= PEERS_MAX:
            self._untold_of_others += sum(self._untold.values())
            self._told.clear()
            self._untold.clear()
        self._told[peer] = now
        counts = {"untold": self._untold.pop(peer, 0)}
        if self._untold_of_others:
            counts["untold_of_others"], self._untold_of_others = self._untold_of_others, 0
        log.warning("not a request", extra=fields(api=api, version=version, peer=peer, reason=reason, **counts))
