"""The log line for malformed requests: once a second for each gateway, however many its clients send."""

import logging
from collections.abc import Callable
from typing import Final

from libs.telemetry.logs import fields

log = logging.getLogger("coordinators")

EVERY_S: Final = 1.0
PEERS_MAX: Final = 100


class MalformedRequestLog:
    """The log lines about malformed requests. `now` is in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._logged_at: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}
        self._suppressed_of_others = 0
        """The count of peers that are no longer remembered."""

    @property
    def remembered_peers(self) -> int:
        return max(len(self._logged_at), len(self._suppressed))

    def write(self, peer: str, api: str, version: int, reason: Exception) -> None:
        """Logs one line, unless one about this peer was logged within `EVERY_S`.

        `suppressed` counts this peer's requests without a line since its last line. `suppressed_of_others` counts
        those of forgotten peers since the last line about anybody.
        """
        now = self._now()
        logged_at = self._logged_at.get(peer)
        if logged_at is not None and now - logged_at < EVERY_S:
            self._suppressed[peer] = self._suppressed.get(peer, 0) + 1
            return
        if logged_at is None and len(self._logged_at) >= PEERS_MAX:
            self._suppressed_of_others += sum(self._suppressed.values())
            self._logged_at.clear()
            self._suppressed.clear()
        self._logged_at[peer] = now
        counts = {"suppressed": self._suppressed.pop(peer, 0)}
        if self._suppressed_of_others:
            counts["suppressed_of_others"], self._suppressed_of_others = self._suppressed_of_others, 0
        log.warning("malformed request", extra=fields(api=api, version=version, peer=peer, reason=reason, **counts))
