"""The registered gateways of one manager, and how much of each limit it may give away.

A gateway that hears nothing for `GRANT_S` spends limit / N by itself, and the manager must not give that part away, too. It
cannot know what a gateway heard. So a gateway counts as silent until it has confirmed an answer, and again `GRANT_S` after the
last ask whose answer it confirmed. Two managers that both believe to be elected thus give away no more than one would.
"""

from collections.abc import Mapping
from typing import Final

from libs.rpc.contracts.quotas import GRANT_S

ASKS_MAX: Final = 64
"""Asks of a gateway that are kept until it confirms one. A gateway asks 20 times a second at most."""


class _Gateway:
    __slots__ = ("asked_at", "heard_until", "incarnation")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.heard_until = float("-inf")
        self.asked_at: dict[int, float] = {}
        """When each ask came that is not confirmed yet, by its number."""


class RegisteredGateways:
    """The gateways that asks come from. Times are seconds of one clock that never goes back."""

    def __init__(self, now: float) -> None:
        self._gateways: dict[int, _Gateway] = {}
        self._filled_s = 0.0
        self._until = now

    def __len__(self) -> int:
        return len(self._gateways)

    def register(self, incarnations: Mapping[int, int], now: float) -> None:
        """Replaces the gateways by those of the image: their incarnations by id."""
        self.filled_s(now)
        before = self._gateways
        self._gateways = {}
        for gateway, incarnation in incarnations.items():
            known = before.get(gateway)
            if known is None or known.incarnation != incarnation:
                known = _Gateway(incarnation)
            self._gateways[gateway] = known

    def asked(self, gateway: int, incarnation: int, number: int, confirmed: int, now: float) -> bool:
        """Notes an ask. `number` rises with each ask of a gateway, and `confirmed` is the highest whose answer it has; 0: none.

        False: that gateway is not registered, so it has no part of any limit.
        """
        known = self._gateways.get(gateway)
        if known is None or known.incarnation != incarnation:
            return False
        self.filled_s(now)
        for earlier in [each for each in known.asked_at if each <= confirmed]:
            known.heard_until = max(known.heard_until, known.asked_at.pop(earlier) + GRANT_S)
        known.asked_at[number] = now
        while len(known.asked_at) > ASKS_MAX:
            del known.asked_at[next(iter(known.asked_at))]
        return True

    def filled_s(self, now: float) -> float:
        """The seconds for which buckets have filled at the whole rate: the sum over time of 1 - silent / N."""
        count, start = len(self._gateways), self._until
        if count and now > start:
            heard_s = sum(max(0.0, min(now, gateway.heard_until) - start) for gateway in self._gateways.values())
            self._filled_s += heard_s / count
        self._until = max(start, now)
        return self._filled_s

    @property
    def silent(self) -> int:
        """The gateways that may spend their part by themselves, at the time of the last call."""
        return sum(1 for gateway in self._gateways.values() if gateway.heard_until <= self._until)
